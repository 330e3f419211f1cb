"""Figures of tables made up here, and what is drawn in them as text."""

import numpy as np
import pandas as pd

from mhbench.report import figures, forest, style


def told(fig) -> list[str]:
    "What a figure draws: texts, dots, lines, how they look and where they are, in pixels; what lies on what."
    if fig is None:
        return ["no figure"]
    short = lambda values: " ".join(f"{v:.3g}" for v in np.ravel(np.asarray(values, float)))
    width, height = fig.get_size_inches() * 72
    out = [f"figure {width:.0f} x {height:.0f}: {' / '.join(fig.get_suptitle().splitlines())}", fig.get_label()]
    [ax] = fig.axes
    if title := fig._suptitle:
        look = f"{title.get_color()} {title.get_fontweight()} {title.get_fontsize():g} {title._linespacing:g}"
        x, y = title.get_position()
        out.append(f"title: {short([x * width, (1 - y) * height])} {look} {title.get_ha()} {title.get_va()}")
    for line in ax.lines:
        x, y = line.get_xdata(), line.get_ydata()
        if (marker := line.get_marker()) != "None":
            look = f"{marker} {line.get_markerfacecolor()} in {line.get_markeredgecolor()}"
            sizes = f"{line.get_markersize():g} {line.get_markeredgewidth():g} {line.get_linestyle()}"
            out.append(f"dot {look} {sizes} {line.get_zorder():g}: {short(x)} | {short(y)}")
        else:
            dashes = short([n for n in line._unscaled_dash_pattern[1] or []])
            look = f"{line.get_color()} {line.get_linewidth():g} {line.get_solid_capstyle()} {dashes}".strip()
            out.append(f"line {look}: {short(x)} | {short(y)}")
    for t in ax.texts:
        ground = t.get_bbox_patch()
        about = f"{t.get_color()} {t.get_ha()} {t.get_va()} {t.get_fontweight()} {t.get_fontsize():g}"
        behind = f" on {short(ground.get_facecolor())} {short(ground.get_edgecolor())}" if ground else ""
        padding = f" {ground.get_boxstyle().pad * t.get_fontsize():g}" if ground else ""
        out.append(f"text {t.get_text()}: {short(t.get_position())} {about}{behind}{padding}")
    return out


def estimates(groups: list[str], models: list[str], wide: float = 0.1) -> pd.DataFrame:
    "An estimate of each model in each group, of some without an interval, of one from few answers."
    rows = [(g, m, 0.2 + 0.07 * j + 0.11 * k) for k, g in enumerate(groups) for j, m in enumerate(models)]
    t = pd.DataFrame(rows, columns=["category", "model", "estimate"])
    t = t.assign(ci_low=t["estimate"] - wide, ci_high=t["estimate"] + 1.5 * wide, n=20 + np.arange(len(t)))
    t.loc[1, ["ci_low", "ci_high"]] = np.nan
    t.loc[2, "n"] = 9
    t["n_unread"] = np.arange(len(t)) % 3 * (np.arange(len(t)) > 3)
    return t.assign(
        n_refused=0, n_missing=(np.arange(len(t)) == 5) * 4, interval=["bootstrap", "few", *["t"] * (len(t) - 2)]
    )


def forests() -> dict[str, object]:
    "Charts of models, of models in groups, of settings, of many rows, with reference values, of nothing."
    three = estimates(["diagnosis", "triage", "after_care"], ["alpha", "beta, few shot", "sim-gamma"])
    holes = three.drop(index=[4, 6]).assign(people=0.5, worse=three["estimate"] < 0.3)
    alike = pd.DataFrame(
        {"model": [f"model {c}" for c in "abcdefghijkl"], "estimate": np.linspace(0.7, 0.4, 12), "n": 508}
    )
    alike = alike.assign(
        ci_low=alike["estimate"] - 0.006, ci_high=alike["estimate"] + 0.006, n_unread=[0] * 10 + [3, 168]
    )
    modes = pd.concat([alike[:4].assign(mode=m) for m in ("zero_shot", "few_shot")])
    wide = three.assign(
        category=three["category"].map("a group of a very long name, {}, of which there are more".format)
    )
    marks = {"chance 1/5": 0.2, "pass_mark": 0.25, "expert": 0.9}
    draw = figures.intervals
    return {
        "models in groups": draw(
            three, group="category", hue="model", marks=marks, limits=(0, 1), title="Three models"
        ),
        "with holes": draw(
            holes, group="category", hue="model", against=("people", "what people reach"), limits=(0, 1)
        ),
        "harm": draw(holes[:3], harm=("worse", "worse"), better="lower", xlabel="mean_error", level=0.99),
        "of long names": draw(wide, group="category", hue="model", better="right is careful", xlabel="points"),
        "of settings": draw(modes, hue="mode", limits=(0, 1), title="Twelve models", key="D0."),
        "of many": draw(pd.concat([alike.assign(model=alike["model"] + f" {k}") for k in range(6)]), xlabel="alpha"),
        "of nothing": draw(three.assign(n=9), group="category", hue="model"),
        "of a page": draw(three, group="category", hue="model", marks=marks, title="Three models"),
        **charts(),
    }


def charts() -> dict[str, object]:
    "Charts of rows: with notes beside the intervals, on either side; without numbers of intervals; as wide as a page."
    Mark, Row, Sign = forest.Mark, forest.ChartRow, forest.Sign
    noted = [
        Row("Early"),
        Row("a", [Mark(0.25, 0, 0.5, note="little room")], "small"),
        Row("b", [Mark(0.5, note="nearly none at all"), Mark(1, 0.75, 1, style.MEDICAL_LOOK, True, "none", 0.5)]),
    ]
    signs = [Sign(style.PLAIN, f"sign {k} of five", k > 2) for k in range(5)]
    long = Row("a name that is as long as a whole line of a telephone and then goes on", noted[2].marks, "small")
    return {
        "with notes": forest.chart(noted, title="A title", limits=(0, 1), legend=signs, digits=1),
        "of a wide page": forest.chart(
            noted, title="A title " * 20, key="A key. " * 30, xlabel="An axis. " * 30, width=style.WIDE, told="Told."
        ),
        "brief": forest.chart(noted, refs={"first": 0.5, "second": 0.52, "third": -1}, brief=True, xlabel="x " * 60),
        "of one value": forest.chart([long, Row("c", [Mark(-2.0)])], limits=(-3, 1), legend=signs[:1]),
        "of a point": forest.chart([Row("c", [Mark(2.0)])]),
    }


def others() -> dict[str, object]:
    bins = pd.DataFrame({"model": ["alpha"] * 3 + ["beta"] * 2, "confidence": [0.8, 0.3, 0.5, 0.4, 0.9]})
    bins = bins.assign(accuracy=[0.9, 0.35, 0.5, 0.2, 0.7], n=[10, 20, 10, 12, 30])
    ends = bins.assign(ci_low=bins["accuracy"] - 0.1, ci_high=[1.0, 0.5, np.nan, 0.4, 0.8])
    page = pd.DataFrame({"place": [2, 1, 3], "option": list("CAB"), "slider": [80, 10, 45.5]})
    dated = pd.DataFrame(
        {"model": ["x", "y", "z"], "estimate": [80.4, 75.8, 83.7], "released": ["2025-01", "2024-10", "2025-07"]}
    )
    dated = dated.assign(parameters=[671.0, 70.0, np.nan], ci_low=[78.0, np.nan, 80.0], ci_high=85.0)
    leader = pd.DataFrame({"model": ["beta", "sim-gamma", "delta", "minilm"], "n": [80, 90, 90, 80], "n_clusters": 30})
    leader = leader.assign(estimate=[0.2, 0.08, 0.05, 0.3], ci_low=[0.1, 0, -0.1, np.nan], ci_high=0.4)
    return {
        "calibration": figures.reliability_diagram(bins),
        "calibration with intervals": figures.reliability_diagram(ends),
        "few in a bin": figures.reliability_diagram(bins.assign(n=[10, 20, 9, 12, 30])),
        "counts": figures.counts({"all": 45, "kept": 17}, title="17 of 45 were kept", xlabel="items"),
        "sliders": figures.sliders(page),
        "leader": figures.leader_differences(leader, "alpha"),
        "leader alone": figures.leader_differences(leader.assign(ci_low=-0.1, n=80), "alpha"),
        "leader of all": figures.leader_differences(leader.assign(ci_low=0.01, n_clusters=[30, 31, 90, 80]), "alpha"),
        "releases": figures.averages_by_release(dated),
        "one release": figures.averages_by_release(dated[:1]),
    }


def sentences() -> list[str]:
    "What titles say of a table."
    t = estimates(["all"], ["alpha", "beta", "gamma", "sim-delta", "epsilon"])
    marks = {"chance 1/5": 0.1, "pass mark": 0.45, "expert": 0.9}
    return [
        figures.describe_best(t, {}),
        figures.describe_best(t, marks),
        figures.describe_best(t[:1], {"chance 1/5": 0.2}),
        figures.describe_best(t[3:4], marks),
        figures.describe_extremes(t, "model", "is strictest", "most lenient", 1),
        str(figures.number_above(t, 0.3)),
    ]


def everything() -> dict[str, object]:
    "All of these, with some models introduced."
    before = style._cast
    style.introduce(["beta", "alpha", "sim-gamma", "sim-delta"], ["sim-gamma", "sim-delta"], ["alpha", "beta"])
    try:
        looks = [f"{x} {style.model_look(x)}" for x in ("alpha", "new", "judged by beta", "sim-gamma", "all")]
        return {"looks": looks, **forests(), **others(), "sentences": sentences()}
    finally:
        style._cast = before


def drawings(made: dict[str, object] | None = None) -> str:
    lines = []
    for name, drawn in (made or everything()).items():
        lines += [f"== {name}", *(drawn if isinstance(drawn, list) else told(drawn))[:120]]
    return "\n".join(lines) + "\n"
