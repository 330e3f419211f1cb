"""Figures of tables made up here, and what is drawn in them as text."""

import numpy as np
import pandas as pd

from mhbench.report import figures, seen, style


def digits(x) -> str:
    return f"{x:%Y-%m-%d}" if isinstance(x, pd.Timestamp) else f"{float(x):.3g}"


def told(fig) -> list[str]:
    "What a figure draws: texts, dots, lines and where they are, to three digits."
    if fig is None:
        return ["no figure"]
    short = lambda values: " ".join(map(digits, np.ravel(np.asarray(values, object))))
    words = lambda text: " / ".join(str(text).split("\n"))
    out = [f"figure {short(fig.get_size_inches())}: {words(fig.get_suptitle())} | {words(fig.get_supxlabel())}"]
    out += [f"{words(fig.get_label())} | {words(fig.get_supylabel())}"]
    for ax in fig.axes:
        sides = (
            f"x {short(ax.get_xlim())}, y {short(ax.get_ylim())}, {words(ax.get_xlabel())}, {words(ax.get_ylabel())}"
        )
        out.append(f"axes {words(ax.get_title(loc='left'))}: {sides}")
        out.append(f"ticks {short(ax.get_xticks())} | {short(ax.get_yticks())}")
        out += [f"tick {words(t.get_text())} {t.get_fontweight()} {t.get_fontsize():g}" for t in ax.get_yticklabels()]
        for line in ax.lines:
            look = f"{line.get_color()} {line.get_marker()} {line.get_linestyle()} {line.get_linewidth():.3g}"
            out.append(
                f"line {look} {line.get_markersize():.3g}: {short(line.get_xdata())} | {short(line.get_ydata())}"
            )
        for c in ax.collections:
            paths = [short(p.vertices[:8]) for p in c.get_paths()[:3]] if len(c.get_offsets()) < 2 else []
            at = f"{short(c.get_offsets())} sizes {short(c.get_sizes()) if hasattr(c, 'get_sizes') else ''}"
            out.append(f"collection {at} {short(c.get_facecolor())} {short(c.get_edgecolor())} {' | '.join(paths)}")
        for t in ax.texts:
            place = short(getattr(t, "xy", t.get_position()))
            out.append(
                f"text {words(t.get_text())}: {place} {t.get_fontsize():g} {t.get_color()} {t.get_ha()} {t.get_va()}"
            )
        if ax.get_legend():
            out += [f"legend {t.get_text()}" for t in ax.get_legend().get_texts()]
    return out + [f"legend {t.get_text()}" for legend in fig.legends for t in legend.get_texts()]


def estimates(groups: list[str], models: list[str], wide: float = 0.1) -> pd.DataFrame:
    "An estimate of each model in each group, of some without an interval, of one from a single answer."
    rows = [(g, m, 0.2 + 0.07 * j + 0.11 * k) for k, g in enumerate(groups) for j, m in enumerate(models)]
    t = pd.DataFrame(rows, columns=["category", "model", "estimate"])
    t = t.assign(ci_low=t["estimate"] - wide, ci_high=t["estimate"] + 1.5 * wide, n=20 + np.arange(len(t)))
    t.loc[1, ["ci_low", "ci_high"]] = np.nan
    t.loc[2, "n"] = 1
    t["n_unread"] = np.arange(len(t)) % 3 * (np.arange(len(t)) > 3)
    return t.assign(
        n_refused=0, n_missing=(np.arange(len(t)) == 5) * 4, interval=["bootstrap", "few", *["t"] * (len(t) - 2)]
    )


def forests() -> dict[str, object]:
    "Forest plots: in one panel, in columns, side by side, of kinds, of many lines, with reference values."
    three = estimates(["diagnosis", "triage", "after_care"], ["alpha", "beta, few shot", "sim-gamma"])
    holes = three.drop(index=[4, 6]).assign(people=0.5)
    many = estimates([f"q{k}" for k in range(45)], ["alpha"], 0.03).drop(columns=["n_unread"])
    crowd = estimates([f"question {k}" for k in range(420)], ["alpha"], 0.002).assign(model="alpha", n=24)
    alike = pd.DataFrame(
        {"model": [f"model {c}" for c in "abcdefghijkl"], "estimate": np.linspace(0.7, 0.4, 12), "n": 508}
    )
    alike = alike.assign(
        ci_low=alike["estimate"] - 0.006, ci_high=alike["estimate"] + 0.006, n_unread=[0] * 10 + [3, 168]
    )
    kinds = {"general": [f"model {c}" for c in "abcdef"], "medical": [f"model {c}" for c in "ghijkl"]}
    wide = three.assign(category=three["category"].map("a group of a very long name, {}".format))
    marks = {"chance 1/5": 0.2, "pass_mark": 0.25, "expert": 0.9}
    draw = figures.intervals
    return {
        "in one panel": draw(three, marks=marks, limits=(0, 1), title="Three models"),
        "with holes": draw(holes, against=("people", "what people reach"), none="not asked", limits=(0, 1), every=True),
        "as they are": draw(holes, every=False, better="lower", xlabel="mean_error", level=0.99),
        "side by side": draw(
            three, hue=None, column="model", better="zero", marks={"no difference": 0.4}, limits=(0, 1)
        ),
        "of long names": draw(wide, hue=None, column="model", better="careful: right", title="Long", xlabel="points"),
        "in columns": draw(many, hue=None, marks=marks, xlabel="alpha", better="higher", title="Forty-five"),
        "evenly spaced": draw(crowd, hue=None, xlabel="alpha", limits=(0, 60)),
        "of kinds": draw(
            alike, group="model", hue=None, kinds=kinds, limits=(0, 1), title="Twelve models of two kinds"
        ),
        "kinds of panels": draw(three, hue=None, column="model", kinds={"a": ["alpha"], "b": ["beta, few shot"]}),
        "of nothing": draw(three.assign(n=1)),
    }


def others() -> dict[str, object]:
    bins = pd.DataFrame({"model": ["alpha"] * 3 + ["beta"] * 2, "confidence": [0.8, 0.3, 0.5, 0.4, 0.9]})
    bins = bins.assign(accuracy=[0.9, 0.35, 0.5, 0.2, 0.7], n=[10, 20, 10, 12, 30])
    ends = bins.assign(ci_low=bins["accuracy"] - 0.1, ci_high=[1.0, 0.5, np.nan, 0.4, 0.8])
    steps = pd.DataFrame({"k": [1, 2, 3] * 2, "model": ["alpha"] * 3 + ["alpha, few shot"] * 3})
    steps = steps.assign(estimate=[0.5, 0.7, 0.9, 0.5, 0.55, 0.6], ci_low=0.4, ci_high=[0.6, 0.8, 0.95, 0.7, 0.7, 0.7])
    shares = pd.DataFrame({"share": np.linspace(0, 1, 11), "estimate": np.linspace(0.3, 0, 11), "judge": "dr"})
    page = pd.DataFrame({"place": [2, 1, 3], "option": list("CAB"), "slider": [80, 10, 45.5]})
    dated = pd.DataFrame(
        {"model": ["x", "y", "z"], "estimate": [80.4, 75.8, 83.7], "released": ["2025-01", "2024-10", "2025-07"]}
    )
    dated = dated.assign(
        family=["a", "b", "a"], parameters=[671.0, 70.0, np.nan], ci_low=[78.0, np.nan, 80.0], ci_high=85.0
    )
    return {
        "calibration": figures.reliability_diagram(bins, title="Confidence"),
        "calibration with intervals": figures.reliability_diagram(ends, xlabel="probability", ylabel="share right"),
        "few in a bin": figures.reliability_diagram(bins.assign(n=[10, 20, 9, 12, 30])),
        "curves": figures.curves(
            steps, x="k", ylabel="share_found", title="Found", limits=(0, 1), marks={"people": 0.8}
        ),
        "risk": figures.curves(shares, x="share", hue="judge", xlabel="coverage", ylabel="risk"),
        "sliders": figures.sliders(page, "A page."),
        "releases": figures.released(dated, title="By date"),
        "one release": figures.released(dated[:1]),
    }


def sentences() -> list[str]:
    "What titles say of a table."
    t = estimates(["all"], ["alpha", "beta", "gamma", "sim-delta", "epsilon"])
    of = t.assign(n=[40, 40, 40, 40, 1])
    return [
        seen.ranged(of, "accuracy"),
        seen.ranged(of[:1], "accuracy"),
        seen.ranged(of.assign(question=list("abcde")), "agreement", of="question"),
        seen.compared(of, 0.3, "chance"),
        seen.compared(of, 0.95, "the pass mark"),
        seen.compared(of.assign(pair=list("abcde")), 0, "0, no favour", of="pair", noun="pairs"),
        seen.by_first_mark(of, {"chance 1/5": 0.2, "pass mark": 0.3}),
        seen.by_first_mark(of, {"pass mark": 0.3}),
        seen.by_first_mark(of, {}),
    ]


def drawings() -> str:
    "All of these, with some models introduced."
    before = style._cast
    style.introduce(["beta", "alpha", "sim-gamma", "sim-delta"], ["sim-gamma", "sim-delta"], ["alpha", "beta"])
    try:
        lines = [
            f"{name} {look}"
            for name, look in style.looks(["alpha", "new", "judged by beta", "s10", "s2", "all"]).items()
        ]
        for name, fig in (forests() | others()).items():
            lines += [f"== {name}", *told(fig)[:120]]
        return "\n".join([*lines, "== sentences", *sentences()]) + "\n"
    finally:
        style._cast = before
