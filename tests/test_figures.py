"""Every figure of the demo and of the papers: its title, its sizes, its places, its colours, its order.

What is drawn in figures of tables made up here is held against fixtures/figures.txt; test_pages_as_text.py makes it.
"""

import re
from difflib import unified_diff
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import drawing
import numpy as np
import pandas as pd
import pytest
from conftest import ROOT
from matplotlib.backends.backend_agg import FigureCanvasAgg

from mhbench.registry import studies
from mhbench.report import figures, forest, style
from mhbench.report.forest import INK, RULE, SOFT

SVG = "{http://www.w3.org/2000/svg}"
FILES = sorted((ROOT / "figures").rglob("*.svg"))
EVERYTHING = drawing.everything()
MADE = {name: fig for name, fig in EVERYTHING.items() if hasattr(fig, "axes")}
COLOURS = {x.color for x in (*style.LOOKS, style.PLAIN, style.MEDICAL_LOOK, style.SIMULATED_LOOK)}
COLOURS |= {style.HARM, INK, SOFT, RULE, "#ffffff"}
# By step, by date, the nearest first, by place, by measure.
OWN_ORDER = {"funnel", "released", "pairs", "page", "known_groups", "mentat", "mentat_390", "first", "first_390"}
OF_ALL = ("first", "first_390")  # the key numbers of five papers: no single finding
VERBS = (
    r"\b(is|are|passes|pass|stay|scores|agree|beat|takes|put|completes|yielded|differ|abstain|shows?|has|leads"
    r"|changes)\b"
)


def place(file: Path) -> str:
    return file.relative_to(ROOT / "figures").with_suffix("").as_posix()


class Drawn:
    "A file: its title, and its texts with size, colour and box."

    def __init__(self, file: Path):
        self.text = file.read_text(encoding="utf-8")
        root = ElementTree.fromstring(self.text)
        self.width = float(root.get("viewBox").split()[2])
        self.title = next(e.text for e in root.iter() if e.tag.endswith("elements/1.1/}title"))
        self.told = next(e.text for e in root.iter() if e.tag.endswith("elements/1.1/}description"))
        self.texts = []  # (text, px, colour, left, top, right, bottom)
        for e in root.iter(f"{SVG}text"):
            look = e.get("style")
            size = float(re.search(r"([\d.]+)px", look)[1])
            colour = (re.search(r"fill: (#\w+)", look) or [0, "#000000"])[1]
            moved = re.match(r"translate\(([\d.]+) ([\d.]+)\)", e.get("transform"))
            x, y = map(float, moved.groups() if moved else (e.get("x"), e.get("y")))
            wide = style.wide(e.text, size, "700" in look or "bold" in look)
            anchor = re.search(r"text-anchor: (\w+)", look)
            left = x - {"middle": wide / 2, "end": wide}.get(anchor and anchor[1], 0)
            self.texts.append((e.text, size, colour, left, y - 0.75 * size, left + wide, y + 0.2 * size))


def overlapping(boxes):  # (name, left, top, right, bottom)
    "Pairs of texts that share more than a pixel."
    pairs = ((a, b) for k, a in enumerate(boxes) for b in boxes[k + 1 :])
    return [
        (a[0], b[0]) for a, b in pairs if a[1] < b[3] - 1 and b[1] < a[3] - 1 and a[2] < b[4] - 1 and b[2] < a[4] - 1
    ]


def test_there_are_some_twenty():
    assert 12 <= len([f for f in FILES if not f.stem.endswith("_390")]) <= 24


@pytest.mark.parametrize("file", FILES, ids=place)
def test_a_figure_says_what_it_found_and_can_be_read_on_a_telephone(file):
    fig = Drawn(file)
    assert file.stem in OF_ALL or (re.search(VERBS, fig.title) and re.search(r"\d", fig.title)), fig.title
    assert not re.match(rf"(?i)({'|'.join(s.name for s in studies())})\b", fig.title) and "ranges from" not in fig.title
    assert fig.told.startswith(fig.title.rstrip(".")) and len(re.findall(r"\d+(?:\.\d+)?", fig.told)) >= 2
    assert 1 <= sum(size == style.HEAD for _, size, *_ in fig.texts) <= 2, "a title has at most two lines"
    telephone = file.with_stem(f"{file.stem}_390")
    assert fig.width == pytest.approx(390) or (fig.width == pytest.approx(820) and telephone.exists())
    if fig.width < 400:
        assert min(size for _, size, *_ in fig.texts) * 358 / 390 >= 11, "between the margins of a page"
    assert not overlapping([(t, *box) for t, _, _, *box in fig.texts])
    assert min(box[0] for *_, box in ((t, b) for t, _, _, *b in fig.texts)) >= 0
    assert max(b[2] for t, _, _, *b in fig.texts) <= fig.width
    used = {c.lower() for c in re.findall(r"#[0-9a-fA-F]{6}", fig.text)}
    assert used <= {c.lower() for c in COLOURS}, used - COLOURS
    assert (style.HARM in used) == ("Red: " in " ".join(t for t, *_ in fig.texts)), "red is for harm, and says of what"
    values = [t for t, _, colour, *_ in fig.texts if colour == INK and re.fullmatch(r"\N{MINUS SIGN}?[\d.]+", t)]
    if file.stem not in OWN_ORDER:
        first = [float(v.replace("\N{MINUS SIGN}", "-")) for v in values]
        step = (
            2
            if {"zero-shot", "difficulty \N{LESS-THAN OR EQUAL TO} 0.5", "levenshtein, rank"}
            & {t for t, *_ in fig.texts}
            else 1
        )
        step = step if file.parent.parent.name != "score" else 1  # a mode of its own models
        first = first[::step]
        if file.stem == "abstention":  # a row has one value or two; the first follows the number of its items
            rows = pairwise(t for t, *_ in fig.texts)
            first = [float(t) for before, t in rows if before.startswith("n = ")]
        assert first == sorted(first, reverse=True) and len(first) > 1


@pytest.mark.parametrize("name", MADE)
def test_no_text_lies_on_another(name):
    fig = MADE[name]
    FigureCanvasAgg(fig)
    renderer = fig.canvas.get_renderer()
    texts = [t for t in (*fig.axes[0].texts, *([fig._suptitle] if fig._suptitle else [])) if t.get_text()]
    width, height = fig.get_size_inches() * fig.dpi
    boxes = [(t.get_text(), *t.get_window_extent(renderer).extents) for t in texts]
    assert not overlapping(boxes)
    assert all(
        left >= -1 and right <= width + 1 and low >= -1 and high <= height + 1 for _, left, low, right, high in boxes
    )


def test_what_is_drawn_stands_where_somebody_saw_it():
    read = Path(__file__).with_name("fixtures").joinpath("figures.txt").read_text(encoding="utf-8").split("\n")
    moved = list(unified_diff(read, drawing.drawings(EVERYTHING).split("\n"), lineterm="", n=0))
    assert not moved, "\n".join([*moved[:40], "if that is right: python tests/test_pages_as_text.py"])


def test_a_share_of_the_axis_is_the_share_of_the_track():
    "Values of 0, 1/4 and 1 on an axis from 0 to 1: the dot stands at a quarter of the line below, within its interval."
    fig = figures.intervals(
        drawing.estimates(["x"], ["a"]).assign(estimate=0.25, ci_low=0.0, ci_high=1.0), limits=(0, 1)
    )
    lines = [(line.get_marker(), list(line.get_xdata()), list(line.get_ydata())) for line in fig.axes[0].lines]
    (_, (low, high), interval_at), (_, [dot], dot_at), (_, (left, right), axis_at) = lines[:3]
    assert (low, high, dot) == pytest.approx((left, right, left + (right - left) / 4))
    assert interval_at == dot_at * 2 and axis_at[0] > dot_at[0]


def test_contrast():
    def light(colour):
        parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        r, g, b = (x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    ratio = {c: 1.05 / (light(c) + 0.05) for c in COLOURS - {"#ffffff"}}
    assert min(ratio.values()) >= 3 and min(ratio[c] for c in (INK, SOFT)) >= 4.5


def test_one_n_stands_in_the_key_where_all_estimates_share_it():
    shared = lambda *n: forest._shared_n(pd.DataFrame({"n": n}, dtype=float))
    assert (shared(40, 40), shared(40, 41), shared(40, np.nan), shared(np.nan, np.nan)) == (40, 0, 0, 0)
    table = pd.DataFrame({"model": ["a", "b"], "estimate": 0.5, "ci_low": 0.1, "ci_high": 0.9, "n": [40, np.nan]})
    assert "n\xa0=\xa040" not in " ".join(t.get_text() for t in figures.intervals(table).axes[0].texts)
    table = table.assign(n=40)
    assert "n\xa0=\xa040" in " ".join(t.get_text() for t in figures.intervals(table).axes[0].texts)


@pytest.mark.parametrize(
    ("n", "lost", "words"),
    [
        (100, {"n_unread": 1}, "1 unparseable"),
        (101, {"n_unread": 1}, ""),
        (200, {"n_unread": 2, "n_refused": 3, "n_missing": 1}, "2 unparseable, 3 refused"),
        (50, {"n_missing": 1}, "1 missing"),
        (50, {"n_unread": np.nan, "n_refused": 0}, ""),
        (np.nan, {"n_unread": 3}, ""),
    ],
)
def test_lost_answers_are_named_from_one_in_a_hundred_on(n, lost, words):
    assert forest._lost_in_words(SimpleNamespace(n=n, **lost)) == words


def test_estimates_are_drawn_that_rest_on_ten_answers_or_on_an_unknown_number():
    table = pd.DataFrame({"estimate": [0.1, 0.2, np.nan, 0.4], "n": [9, 10, 50, np.nan]})
    assert forest.enough(table)["estimate"].tolist() == [0.2, 0.4]


def test_values_stand_in_their_own_order_or_by_their_first_estimate():
    table = pd.DataFrame({"x": ["b", "a", "b", "m10", "m9"], "estimate": [0.5, 0.7, 0.9, 0.2, 0.2]})
    assert forest._ordered_values(table, "x", False) == ["a", "b", "m9", "m10"]
    assert forest._ordered_values(table, "x", True) == ["m9", "m10", "b", "a"]
    own = table.assign(x=pd.Categorical(table["x"], ["m10", "z", "b", "a", "m9"]))
    assert forest._ordered_values(own, "x", True) == ["m10", "b", "a", "m9"]


@pytest.mark.parametrize(
    ("values", "limits", "ends"),
    [
        ((0.2, 0.6), None, (0.18, 0.62)),
        ((0.2, 0.6), (0, 1), (0.18, 0.62)),
        ((0.0, 1.0), (0, 1), (0.0, 1.0)),
        ((-0.1, 0.9), (0, 1), (-0.1, 0.95)),
        ((0.5, 0.5), None, (0.0, 1.0)),
    ],
)
def test_an_axis_has_a_margin_within_its_limits(values, limits, ends):
    "A twentieth of the range on either side; a half where there is none; no further than the data beyond a limit."
    rows = [forest.ChartRow("a", [forest.Mark(values[0])]), forest.ChartRow("b")]
    assert forest._axis_range(rows, values[1:], limits) == pytest.approx(ends)
    tick = [forest.ChartRow("a", [forest.Mark(values[0], tick=values[1])])]
    assert forest._axis_range(tick, [], limits) == pytest.approx(ends)


def test_a_long_list_is_drawn_at_even_steps_from_first_to_last():
    n = 121
    table = pd.DataFrame({"model": [f"m{k:03d}" for k in range(n)], "estimate": np.linspace(1, 0, n), "n": 50})
    texts = [t.get_text() for t in figures.intervals(table.assign(ci_low=0.0, ci_high=1.0)).axes[0].texts]
    names = [int(t[1:]) for t in texts if re.fullmatch(r"m\d{3}", t)]
    assert names == [round(k * (n - 1) / 59) for k in range(60)] and "60 of 121 rows, evenly spaced" in " ".join(texts)
    whole = figures.intervals(table[:60].assign(ci_low=0.0, ci_high=1.0))
    assert "evenly spaced" not in " ".join(t.get_text() for t in whole.axes[0].texts)


@pytest.mark.parametrize(
    ("low", "high", "margins"), [(0.0, 1.0, [False, False]), (0.2, 0.8, [True, True]), (0.2, 1.0, [True, False])]
)
def test_the_axis_of_accuracy_has_a_margin_but_ends_at_zero_and_one(low, high, margins):
    """Beside the intervals the axis goes on, except where there is no accuracy."""
    bins = pd.DataFrame({"model": "m", "confidence": [0.5, 0.6], "accuracy": [0.5, 0.6], "n": 50})
    drawn = figures.reliability_diagram(bins.assign(ci_low=[low, 0.5], ci_high=[0.6, high])).axes[0].lines
    ends = [(line.get_xdata()[0], line.get_xdata()[-1]) for line in drawn]
    axis = max(ends, key=lambda e: e[1] - e[0])
    spans = [e for e in ends if e[0] < e[1] and e != axis]
    assert [min(e[0] for e in spans) > axis[0] + 1, max(e[1] for e in spans) < axis[1] - 1] == margins


def test_the_best_is_said_to_be_highest_unless_a_simulated_one_is_left_out():
    """With values to stand beside, and without."""
    table = pd.DataFrame({"model": ["a", "b"], "estimate": [0.5, 0.8], "ci_low": [0.4, 0.7], "ci_high": [0.6, 0.9]})
    table = table.assign(n=100, n_clusters=100)
    assert figures.describe_best(table, {"chance": 0.2}) == "b is highest (0.80): above chance"
    assert figures.describe_best(table, {"chance": 0.2}, adjective="best") == "b is best (0.80): above chance"
    assert figures.describe_best(table, {}) == "b is highest (0.80), a lowest (0.50)"


def test_of_equal_estimates_the_first_row_is_highest_and_the_last_is_lowest():
    "In the order of the table, and of more rows than a sort of few keeps in order by itself."
    estimates = np.random.default_rng(1).choice([0.2, 0.4, 0.6], 40)
    table = pd.DataFrame({"rater": [f"r{k}" for k in range(40)], "n": 50, "estimate": estimates})
    highest, lowest = (np.flatnonzero(estimates == x) for x in (0.6, 0.2))
    sentence = figures.describe_extremes(table.assign(ci_low=0.1, ci_high=0.9), "rater", "strictest", "mildest")
    assert sentence.startswith(f"r{highest[0]} strictest (0.60), r{lowest[-1]} mildest (0.20)")
