"""Agreement: independent references on random ratings, published examples beyond the notebook's, comparisons by their
definition, faults.
"""

import json
import tracemalloc
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import cohen_kappa_score

from mhbench.stats import abstention, agreement, bias, consensus, jackknife, resample
from mhbench.stats.resample import bootstrap, draw_weights

krippendorff = pytest.importorskip("krippendorff", reason="the krippendorff package is the reference")
inter_rater = pytest.importorskip("statsmodels.stats.inter_rater", reason="statsmodels is the reference")
close = partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-9)


@st.composite
def ratings(draw, raters=(2, 6), items=(1, 30), values=(1, 6), missing=True, scale=1.0):
    r, n, v = (draw(st.integers(*x)) for x in (raters, items, values))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    x = (
        np.where(
            rng.random((r, n)) < draw(st.sampled_from([0.0, 0.5, 0.9])),
            rng.integers(0, v, n),
            rng.integers(0, v, (r, n)),
        )
        * scale
    )
    if missing:
        x[rng.random(x.shape) < draw(st.sampled_from([0.0, 0.1, 0.6]))] = np.nan
    return x


def reference_alpha(x, level):
    try:
        return krippendorff.alpha(x, level_of_measurement=level)
    except ValueError:
        return np.nan  # one value, or nothing that pairs


@settings(max_examples=300, deadline=None)
@given(ratings(), st.sampled_from(agreement.LEVELS))
def test_alpha_equals_the_krippendorff_package(x, level):
    want, got = reference_alpha(x, level), agreement.krippendorff_alpha(x, level)
    if np.isnan(want) or np.isinf(want):
        assert np.isnan(got)
    else:
        close(got, want)


@settings(max_examples=60, deadline=None)
@given(ratings(values=(2, 40), items=(2, 20), scale=2.5), st.sampled_from(agreement.LEVELS), st.integers(0, 1000))
def test_alpha_of_all_replicates_is_alpha_of_each(x, level, seed):
    w = next(draw_weights(x.shape[1], 6, seed=seed))
    got = agreement.krippendorff_alpha(x, level, weights=w)
    want = [agreement.krippendorff_alpha(np.repeat(x, k.astype(int), axis=1), level) for k in w]
    close(got, want)
    w = next(draw_weights(len(x), 6, seed=seed))
    want = [agreement.krippendorff_alpha(np.repeat(x, k.astype(int), axis=0), level) for k in w]
    close(agreement.krippendorff_alpha(x, level, rater_weights=w), want)


def test_many_ordered_values_take_the_other_path():
    x = np.random.default_rng(0).integers(0, 60, (5, 40)).astype(float)  # more than 16 values
    close(agreement.krippendorff_alpha(x, "ordinal"), krippendorff.alpha(x, level_of_measurement="ordinal"))


def test_alpha_far_from_zero_keeps_its_digits():
    x = np.random.default_rng(1).normal(size=(4, 30))
    close(agreement.krippendorff_alpha(x + 1e7, "interval"), agreement.krippendorff_alpha(x, "interval"), rtol=1e-6)


@settings(max_examples=200, deadline=None)
@given(ratings(raters=(2, 2), missing=False, items=(1, 40)), st.sampled_from([None, "linear", "quadratic"]))
def test_kappa_equals_scikit_learn(x, weighting):
    a, b = x.astype(int)
    got = agreement.cohen_kappa(a, b, weighting=weighting)
    if len(np.unique(x)) == 1:
        assert np.isnan(got)
    else:
        close(got, cohen_kappa_score(a, b, weights=weighting))


@settings(max_examples=150, deadline=None)
@given(ratings(raters=(2, 2)), st.integers(0, 1000))
def test_two_raters_with_weights(x, seed):
    w = next(draw_weights(x.shape[1], 5, seed=seed))
    for f in (agreement.cohen_kappa, agreement.percent_agreement, partial(agreement.pabak, categories=6)):
        close(f(*x, weights=w), [f(*np.repeat(x, k.astype(int), axis=1)) for k in w])
    keep = ~np.isnan(x).any(0)
    assume(keep.any())
    close(agreement.percent_agreement(*x), (x[0, keep] == x[1, keep]).mean())


def test_irrcac():
    "AC1 and alpha with missing ratings, as irrCAC gives them."
    cases = json.loads((Path(__file__).parent / "fixtures" / "irrcac.json").read_text())["cases"]
    assert len(cases) == 12
    for c in cases:
        x = np.array(c["ratings"], dtype=float)
        close(
            [agreement.gwet_ac1(x), agreement.krippendorff_alpha(x, "nominal")],
            [c["gwet_ac1"], c["krippendorff_alpha"]],
            atol=1e-10,
        )


@settings(max_examples=60, deadline=None)
@given(ratings(values=(2, 4)), st.integers(0, 1000))
def test_several_raters_with_weights(x, seed):
    values = sorted(set(x[~np.isnan(x)]))
    assume(values)
    w = next(draw_weights(x.shape[1], 5, seed=seed))
    for f in (
        partial(agreement.gwet_ac1, categories=values),
        partial(agreement.mean_pairwise, categories=values),
    ):
        close(f(x, weights=w), [f(np.repeat(x, k.astype(int), axis=1)) for k in w])


@settings(max_examples=60, deadline=None)
@given(ratings(values=(2, 4), items=(3, 20)), st.randoms())
def test_order_of_raters_items_and_names_does_not_matter(x, random):
    i, j = random.sample(range(len(x)), len(x)), random.sample(range(x.shape[1]), x.shape[1])
    names = np.array(["Correct", "Incorrect", "Unsure", "Other", None], dtype=object)[
        np.where(np.isnan(x), 4, x).astype(int)
    ]
    for f in (
        partial(agreement.krippendorff_alpha, level="nominal"),
        agreement.gwet_ac1,
        agreement.mean_pairwise,
    ):
        close(f(x[i][:, j]), f(x))
        close(f(names), f(x))


# ------------------------------------------------------------------ published


def test_feinstein_and_cicchetti():
    "The 2 x 2 tables of Feinstein and Cicchetti 1990: observed agreement and kappa."
    for table, p, kappa in (
        ([[40, 9], [6, 45]], 0.85, 0.70),
        ([[80, 10], [5, 5]], 0.85, 0.32),
        ([[45, 15], [25, 15]], 0.60, 0.13),
        ([[25, 35], [5, 35]], 0.60, 0.26),
    ):
        a, b = np.array([(i, j) for i in range(2) for j in range(2) for _ in range(table[i][j])]).T
        assert agreement.percent_agreement(a, b) == p and round(agreement.cohen_kappa(a, b), 2) == kappa
        t, n = np.array(table), np.sum(table)
        bias, prevalence = (
            (t[0, 1] - t[1, 0]) / n,
            (t[0, 0] - t[1, 1]) / n,
        )  # Byrt et al. 1993: kappa from PABAK and the two indices
        close(
            agreement.cohen_kappa(a, b),
            (agreement.pabak(a, b) - prevalence**2 + bias**2) / (1 - prevalence**2 + bias**2),
        )


def test_cohen_1960():
    "Cohen 1960, table 1: two judges, three categories, 100 cases, kappa 0.492."
    table = [[44, 5, 1], [7, 20, 3], [9, 5, 6]]
    a, b = np.array([(i, j) for i in range(3) for j in range(3) for _ in range(table[i][j])]).T
    assert round(agreement.cohen_kappa(a, b), 3) == 0.492
    close(
        agreement.cohen_kappa(a, b), (0.70 - 0.41) / (1 - 0.41)
    )  # agreement 0.70, chance 0.5 x 0.6 + 0.3 x 0.3 + 0.2 x 0.1


# ------------------------------------------------------------------ consensus, ceiling, alignment


def people(seed, r=5, n=60, skill=0.85, abstain=0.05):
    rng = np.random.default_rng(seed)
    truth = rng.random(n) < 0.6
    x = np.where(np.where(rng.random((r, n)) < skill, truth, ~truth), "Correct", "Incorrect").astype(object)
    x[rng.random(x.shape) < abstain] = "Abstain"
    return x


def vote(column):
    c, i = (column == "Correct").sum(), (column == "Incorrect").sum()
    return "Correct" if c > i else "Incorrect" if i > c else None


def kappa_by_hand(a, b):
    keep = [i for i in range(len(a)) if a[i] in ("Correct", "Incorrect") and b[i] in ("Correct", "Incorrect")]
    return cohen_kappa_score([a[i] for i in keep], [b[i] for i in keep])


@pytest.mark.parametrize("seed", range(5))
def test_majority_and_ceiling_by_their_definition(seed):
    x = people(seed, r=4, abstain=0.2)
    assert consensus.majority(x).tolist() == [vote(c) for c in x.T]
    items = np.repeat(np.arange(30), 2)
    got = consensus.leave_one_out_ceiling(x, clusters=items)
    others = [np.array([vote(c) for c in np.delete(x, r, 0).T], dtype=object) for r in range(4)]
    each = lambda kept: [kappa_by_hand(x[r][kept], others[r][kept]) for r in range(4)]
    close([e.estimate for e in got.per_rater], each(items >= 0))
    close(got.mean.estimate, np.mean(each(items >= 0)))
    pairs = np.stack([x.ravel(), np.concatenate(others)])
    codes = np.select([pairs == "Correct", pairs == "Incorrect"], [0, 1], -1)
    compared = np.unique(np.tile(items, 4)[(codes >= 0).all(0)])  # a rater and a majority of the others
    without = np.array([np.mean(each(items != k)) for k in compared])
    j = jackknife.Jackknife(got.mean.estimate, without, len(compared))
    used = (codes >= 0).all(0).reshape(4, -1).any(0)
    codes = codes[:, np.tile(used, 4)]
    at = np.tile(items[used], 4)
    rarer = len(np.unique(at[(codes == np.bincount(codes[codes >= 0]).argmin()).any(0)]))
    times = stats.t.ppf(0.975, min(j.df, rarer))
    lowest = jackknife.lowest_agreement(codes, 2)
    close([got.mean.ci_low, got.mean.ci_high], jackknife.range_limits(j.value, j.se, times, lowest))
    assert got.mean.n_clusters == len(compared)


@pytest.mark.parametrize("metric", list(agreement.METRICS))
def test_alignment_by_its_definition(metric):
    x, y = people(1), people(2, r=3, skill=0.7)
    f = getattr(agreement, metric)
    for a, got in zip(y, consensus.alignment(y, x, metric=metric)):
        labelled, own, top = a != "Abstain", [], []
        for r in range(5):
            others = consensus.majority(np.delete(x, r, 0))
            common = labelled & (x[r] != "Abstain")
            own.append(f(a[common], others[common]))
            top.append(f(x[r][common], others[common]))
        top = np.mean(top)
        own = np.mean(own)
        assert got.n_left_out == sum(m is not None for m in consensus.majority(x)[~labelled])
        close([got.agreement.estimate, got.ceiling.estimate, got.difference.estimate], [own, top, own - top])
        assert got.difference.ci_low < got.difference.estimate < got.difference.ci_high
        assert (got.p_value < 0.05) == (not got.difference.ci_low <= 0 <= got.difference.ci_high)
        assert got.overlap == (
            got.agreement.ci_low <= got.ceiling.ci_high and got.ceiling.ci_low <= got.agreement.ci_high
        )


def limits_within(value, se, times, lowest):
    "Where a value lies `times` its standard error off, which goes with the root of (x - lowest) (1 - x)."
    scale = (times * se) ** 2 / ((value - lowest) * (1 - value))
    return np.sort(np.roots([1 + scale, -2 * value - scale * (1 + lowest), value**2 + scale * lowest]).real)


def spread_without(left_out):
    "The jackknife's standard error and its degrees of freedom, from the kurtosis of the values."
    g = len(left_out)
    excess = max(0.0, stats.kurtosis(left_out) + 3 - 3 * (g - 1) / (g + 1))
    return np.sqrt(g - 1) * np.std(left_out), 1 / (1 / (g - 1) + excess / (2 * g))


@pytest.mark.parametrize("metric", list(agreement.METRICS))
def test_the_limits_of_alignment_are_those_of_leaving_cases_out(metric):
    x, y, case = people(3, r=4, abstain=0.15), people(4, r=1, skill=0.7, abstain=0.1)[0], np.minimum(np.arange(60), 25)
    f, others = getattr(agreement, metric), [consensus.majority(np.delete(x, r, 0)) for r in range(4)]

    def difference(kept):
        common = [kept & (y != "Abstain") & (x[r] != "Abstain") for r in range(4)]
        return np.mean([f(y[c], o[c]) - f(row[c], o[c]) for c, o, row in zip(common, others, x)])

    found = consensus.alignment(y, x, metric=metric, clusters=case, level=0.9)
    compared = (y != "Abstain") & ((x != "Abstain") & np.not_equal(np.array(others), None)).any(0)
    value, without = difference(case >= 0), np.array([difference(case != k) for k in np.unique(case[compared])])
    se, df = spread_without(without)
    half = stats.t.ppf(0.95, df) * se
    close([found.difference.ci_low, found.difference.ci_high], [value - half, value + half])
    close(found.p_value, 2 * stats.t.sf(abs(value / se), df))


def test_a_physician_in_disguise_reaches_the_ceiling():
    """An annotator as good as the panel: the paired difference covers zero about 95% of the time, where both face the
    same opponents.
    """
    covered = []
    for seed in range(120):
        x = people(seed, r=6, n=80, abstain=0)
        d = consensus.alignment(x[5], x[:5]).difference
        covered.append(d.ci_low <= 0 <= d.ci_high)
    assert np.mean(covered) > 0.88


@pytest.mark.parametrize("raters", [3, 4])
def test_who_leaves_the_hard_answers_out_is_not_better_for_it(raters):
    "As good as each rater, silent on the hardest 30%: no difference on average, whatever the panel's parity."
    found = []
    for seed in range(60):
        rng = np.random.default_rng([raters, seed])
        skill = rng.permutation(np.linspace(0.55, 1.0, 120))
        truth = rng.random(120) < 0.5
        right = rng.random((raters + 1, 120)) < skill
        x = np.where(right == truth, "Correct", "Incorrect").astype(object)
        judge = np.where(skill < np.quantile(skill, 0.3), "Abstain", x[-1])
        found.append(consensus.alignment(judge, x[:-1]))
        assert found[-1].n_left_out > 5
    d = np.array([a.difference.estimate for a in found])
    assert abs(d.mean()) < 0.03
    assert np.mean([a.difference.ci_low > 0 for a in found]) < 0.12


def test_texts_are_compared_once_and_not_without_each_case(monkeypatch):
    "As codes they are compared twenty times as fast; a hundred thousand cases took minutes."
    seen, is_label = [], agreement.is_label
    monkeypatch.setattr(agreement, "is_label", lambda *x: seen.append(x) or is_label(*x))
    x = np.random.default_rng(1).choice(["a", "b", "Abstain"], (2, 20_000)).astype(object)
    found = jackknife.agreement_estimate(x, clusters=np.arange(20_000) % 300)
    assert len(seen) == 1 and found.estimate == agreement.cohen_kappa(*x)


def test_alpha_of_many_raters_and_values_holds_one_table_of_counts_and_its_copies():
    x = np.random.default_rng(1).integers(0, 100, (12, 5_000)).astype(float)
    tracemalloc.start()
    agreement.krippendorff_alpha(x, "ordinal")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * 8 * 5_000 * 100  # with one for each rater it was over twelve


# ------------------------------------------------------------------ ensembles


def test_ensembles_by_their_definition():
    x, y = people(1, abstain=0), people(2, r=5, skill=0.7, abstain=0.1)
    got = consensus.best_ensemble(y, x, n=30, inner=5, seed=4)
    subsets = [m for k in (1, 3, 5) for m in combinations(range(5), k)]
    for metric, e in got.items():
        f, agreed = getattr(agreement, metric), consensus.majority(x)
        values = [f(consensus.majority(y[list(m)]), agreed) for m in subsets]
        close(e.values, values)
        assert e.candidates == subsets and e.members == subsets[int(np.argmax(values))]
        w = next(draw_weights(60, 30, seed=4)).astype(int)
        outer = np.array(
            [[f(np.repeat(consensus.majority(y[list(m)]), k), np.repeat(agreed, k)) for m in subsets] for k in w]
        )
        close(e.apparent.replicates, outer[:, int(np.argmax(values))])
        close(e.optimism, np.mean(outer.max(1) - np.array(values)[outer.argmax(1)]))
        assert e.score.ci_low <= e.score.estimate <= e.score.ci_high and e.score.estimate < e.apparent.estimate


def test_the_corrected_score_by_its_definition():
    x, y = people(1, abstain=0), people(2, r=3, skill=0.75, abstain=0.05)
    n, inner, seed = 25, 4, 6
    e = consensus.best_ensemble(y, x, metrics=["cohen_kappa"], n=n, inner=inner, seed=seed)["cohen_kappa"]
    votes, agreed = [consensus.majority(y[list(m)]) for m in e.candidates], consensus.majority(x)
    scores = lambda w: np.array(
        [
            [agreement.cohen_kappa(np.repeat(v, k.astype(int)), np.repeat(agreed, k.astype(int))) for v in votes]
            for k in w
        ]
    )
    data, w = scores(np.ones((1, 60)))[0], next(draw_weights(60, n, seed=seed))
    outer, rng = scores(w), np.random.default_rng(resample.seed_sequence(seed).spawn(2)[1])
    error, optimism = [], []
    for b in range(n):
        again = scores(consensus._inner_replicates(rng, w[b : b + 1], inner))
        luck = np.mean(
            [a.max() - outer[b, a.argmax()] for a in again]
        )  # what the search gains by luck, as seen from replicate b
        truth = data[outer[b].argmax()]  # what b's winner is worth where b comes from
        error.append(outer[b].max() - luck - truth)
        optimism.append(outer[b].max() - truth)
    once = data.max() - np.mean(optimism)
    close(e.score.estimate, once - np.mean(error))


@pytest.mark.parametrize(("metric", "lowest"), [("percent_agreement", 0.0), ("pabak", -1.0)])
def test_the_limits_of_the_best_allow_for_the_largest_error_of_all(metric, lowest):
    "The lower one by draws of a multivariate t with the correlations of the candidates; the upper one is its own."
    x, y, case = people(1, abstain=0), people(2, r=5, skill=0.7, abstain=0.1), np.arange(60) % 23
    e = consensus.best_ensemble(y, x, metrics=[metric], n=60, inner=5, seed=4, clusters=case, level=0.9)[metric]
    votes, agreed = [consensus.majority(y[list(m)]) for m in e.candidates], consensus.majority(x)
    values = lambda kept: np.array([getattr(agreement, metric)(v[kept], agreed[kept]) for v in votes])
    whole, without = values(case >= 0), np.array([values(case != k) for k in range(23)])
    best = whole.argmax()
    largest = stats.multivariate_t(shape=np.corrcoef(without.T), df=22, allow_singular=True)
    times = np.quantile(largest.rvs(100_000, random_state=1).max(1), 0.9)
    se, df = spread_without(without[:, best])
    own = limits_within(whole[best], se, stats.t.ppf(0.95, df), lowest)
    low = limits_within(whole[best], se, times, lowest)[0]
    assert low < own[0]
    assert e.score.ci_low == pytest.approx(low, abs=0.01)  # the function draws 2,000
    close(e.score.ci_high, own[1])


def test_replicates_that_leave_nothing_defined_are_counted():
    "Two items of eight carry the second label: some replicates draw neither, and no kappa is defined there."
    x = np.array([["Correct"] * 6 + ["Incorrect"] * 2] * 3, dtype=object)
    y = np.array(
        [
            ["Correct"] * 6 + ["Incorrect"] * 2,
            ["Correct"] * 5 + ["Incorrect"] * 3,
            ["Incorrect"] + ["Correct"] * 5 + ["Incorrect"] * 2,
        ],
        dtype=object,
    )
    e = consensus.best_ensemble(y, x, metrics=["cohen_kappa"], n=200, inner=5, seed=1)["cohen_kappa"]
    assert (
        0 < e.score.undefined < 100
        and np.isfinite([e.score.estimate, e.score.ci_low, e.score.ci_high, e.optimism]).all()
    )
    assert e.members == (0,) and e.apparent.undefined > 0
    with pytest.raises(ValueError, match="no ensemble has a defined"):
        consensus.best_ensemble(y[:1, :5], x[:, :5], seed=1)
    lone = ["Correct"] * 19 + ["Incorrect"]
    seed = next(s for s in range(99) if not next(resample.draw_weights(20, 1, seed=s))[0, -1])  # never draws the last
    with pytest.raises(ValueError, match="some replicate must have a defined cohen_kappa; got none"):
        consensus.best_ensemble([lone], [lone] * 3, metrics=["cohen_kappa"], n=1, inner=2, seed=seed)


def test_a_single_annotator_is_its_own_ensemble():
    x, y = people(1), people(2, r=1)
    e = consensus.best_ensemble(y, x, n=50, inner=5, seed=1)["cohen_kappa"]
    assert e.members == (0,) and e.won == 1.0


def test_a_batch_changes_nothing(monkeypatch):
    "The inner draws come from one stream, whatever the size of the outer batches."
    x, y = people(1), people(2, r=3)
    whole = consensus.best_ensemble(y, x, n=20, inner=3, seed=1)["cohen_kappa"].score.estimate
    small = resample.draw_weights
    monkeypatch.setattr(
        consensus, "draw_weights", lambda n_units, n, *, seed, chunk: small(n_units, n, seed=seed, chunk=n_units * 3)
    )
    close(consensus.best_ensemble(y, x, n=20, inner=3, seed=1)["cohen_kappa"].score.estimate, whole)


# ------------------------------------------------------------------ bias, abstention, risk


def test_bias_by_its_definition():
    rng = np.random.default_rng(1)
    annotators, students = ["a1", "a2", "b", "c"], ["a1", "a2", "b"]
    lineages = {"a1": "a", "a2": "a", "b": "b", "c": "c"}
    s = rng.integers(0, 2, (4, 3, 50)).astype(float)
    s[rng.random(s.shape) < 0.1] = np.nan
    s[2:, 0, 7] = np.nan  # no peer scored item 7 of a1
    found = bias.self_enhancement(s, annotators, students, lineages, n=20, seed=1) + bias.family_bias(
        s, annotators, students, lineages, n=20, seed=1, others=True
    )
    assert {(b.annotator, b.student, b.kind) for b in found} == {
        (a, t, "self" if a == t else "family" if lineages[a] == lineages[t] else "other")
        for a in annotators
        for t in students
    }
    for b in found:
        a, t = annotators.index(b.annotator), students.index(b.student)
        peers = [i for i, p in enumerate(annotators) if lineages[p] != lineages[b.annotator]]
        d = []
        for i in range(50):
            seen = [s[p, t, i] for p in peers if not np.isnan(s[p, t, i])]
            if seen and not np.isnan(s[a, t, i]):
                d.append(s[a, t, i] - np.mean(seen))
        close(b.difference.estimate, np.mean(d))
        assert b.left_out == 50 - len(d) and b.difference.n == len(d) and b.peers == tuple(annotators[p] for p in peers)


def test_the_guard_names_everyone_at_once():
    lineages = {"a1": "a", "a2": "a", "b": "b"}
    pairs = bias.shared_lineage(["a1", "b"], ["a1", "a2", "b"], lineages)
    assert [tuple(p[:3]) for p in pairs] == [("a1", "a1", "a"), ("a1", "a2", "a"), ("b", "b", "b")]
    with pytest.raises(ValueError, match="none for 'x'"):
        bias.shared_lineage(["x"], ["b"], lineages)
    with pytest.raises(ValueError, match="none for 'b'"):
        bias.shared_lineage(["b"], ["a1"], {**lineages, "b": ""})


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=7), st.integers(0, 99))
def test_area_is_the_mean_over_all_orders_of_the_ties(data, seed):
    from itertools import permutations

    c, y = np.array([d[0] for d in data], float), np.array([d[1] for d in data], float)
    orders = {p for p in permutations(range(len(c))) if all(c[p[k]] >= c[p[k + 1]] for k in range(len(c) - 1))}
    want = np.mean([np.mean([np.mean([1 - y[i] for i in p[: k + 1]]) for k in range(len(p))]) for p in orders])
    close(abstention.risk_coverage_area(c, y), want)
    w = next(draw_weights(len(c), 4, seed=seed))
    close(
        abstention.risk_coverage_area(c, y, weights=w),
        [abstention.risk_coverage_area(np.repeat(c, k.astype(int)), np.repeat(y, k.astype(int))) for k in w],
    )


def test_the_area_under_risk_and_coverage_takes_no_table_of_all_pairs():
    rng = np.random.default_rng(1)
    confidence = rng.random(30_000)
    tracemalloc.start()
    area = abstention.risk_coverage_area(confidence, rng.random(30_000) < confidence)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert area == pytest.approx(0.25, abs=0.01) and peak < 50e6  # a table of all pairs takes 7.2 GB


def test_abstention_by_its_definition():
    x, d = people(3, abstain=0.3), np.random.default_rng(2).choice([0.2, 0.5, 0.7, 1.0, 1.3, 1.5, np.nan], 60)
    x[0, :10] = None  # not asked
    got = abstention.abstention_by_difficulty(x, d, n=20, seed=1)
    for k, inside in enumerate((d <= 0.5, (d > 0.5) & (d <= 1), (d > 1) & (d < 1.5), d >= 1.5)):
        asked = [v for v in x[:, inside].ravel() if v is not None]
        close(got.rate.estimate[k], np.mean([v == "Abstain" for v in asked]))
        assert (got.n_items[k], got.n_ratings[k]) == (inside.sum(), len(asked))
    assert got.left_out == np.isnan(d).sum()


def test_position():
    same = bias.position_bias(
        ["first", "second"] * 5, ["second", "first"] * 5, seed=1
    )  # the same answer wins either way
    always = bias.position_bias(["first"] * 10, ["first"] * 10, seed=1)  # whatever comes first wins
    assert (same.consistency.estimate, same.first.estimate) == (1.0, 0.0) and (
        always.consistency.estimate,
        always.first.estimate,
    ) == (0.0, 0.5)
    assert bias.position_bias(["first", None], ["second", "first"], seed=1).left_out == 1


# ------------------------------------------------------------------ labels


def test_abstain_is_left_out_by_default_and_a_label_on_request():
    a, b = ["Correct", "Abstain", "Abstain", "Incorrect"], ["Correct", "Abstain", "Correct", "Correct"]
    assert agreement.percent_agreement(a, b) == 0.5 and agreement.percent_agreement(a, b, ignore=()) == 0.5
    assert agreement.cohen_kappa(a, b, ignore=()) != agreement.cohen_kappa(a, b)
    assert np.isnan(agreement.percent_agreement(["Abstain"], ["Abstain"]))
    assert consensus.majority([["Abstain"], ["Abstain"], ["Correct"]]).tolist() == ["Correct"]


def test_a_label_that_is_missing_is_none_of_the_categories():
    a, b, categories = ["x", None, "y", "x"], ["x", "y", "y", "y"], ["x", "y", "z"]
    without = agreement.cohen_kappa(["x", "y", "x"], ["x", "y", "y"], categories=categories)
    assert agreement.cohen_kappa(a, b, categories=categories) == without
    nobody = [None, None]
    assert np.isnan(agreement.cohen_kappa(nobody, nobody, weighting="linear", distances="values"))
    assert agreement.krippendorff_alpha([a, ["x", "y", "y", "x"]], "ordinal", categories=categories) == 1


@pytest.mark.parametrize("labels", [["a", np.str_("b"), "a"], [True, np.False_, True], [1, np.float64(2), True]])
def test_labels_of_numpy_and_of_python_are_of_one_kind(labels):
    assert agreement.percent_agreement(labels, [labels[0]] * 3) == pytest.approx(2 / 3)
    assert agreement.cohen_kappa(labels, labels) == 1


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: agreement.cohen_kappa([1], [1, 2]), "same shape"),
        (lambda: agreement.cohen_kappa([], []), "one label an item"),
        (lambda: agreement.cohen_kappa(["a", 1], ["a", "b"]), "of one kind"),
        (lambda: agreement.cohen_kappa(["a", True], ["a", "b"]), "of one kind"),
        (lambda: agreement.pabak([1], [2], categories=1), "pass categories=2"),
        (lambda: agreement.krippendorff_alpha([[1, 2]], "nominal"), "at least 2 raters"),
        (lambda: agreement.krippendorff_alpha(np.array([[-1.0, 2], [1, 2]]), "ratio"), "must not be negative"),
        (
            lambda: agreement.krippendorff_alpha(np.ones((2, 3)), "nominal", weights=np.ones((2, 2))),
            "weights must have shape",
        ),
        (
            lambda: agreement.krippendorff_alpha(
                np.ones((2, 3)), "nominal", weights=np.ones((1, 3)), rater_weights=np.ones((1, 2))
            ),
            "not both",
        ),
        (lambda: consensus.best_ensemble(np.ones((16, 3)), np.ones((2, 3)), seed=1), "at most 15"),
        (
            lambda: consensus.best_ensemble(np.ones((3, 3)), np.ones((2, 3)), seed=1),
            "no ensemble has a defined agreement",
        ),
        (lambda: abstention.mean_difficulty([["Easy", "Tough"]]), "got \\['Tough'\\]"),
        (lambda: abstention.risk_coverage([0.1], [0.1, 1], seed=1), "same shape"),
        (lambda: abstention.risk_coverage([np.nan], [1], seed=1), "at least one item"),
        (lambda: bias.position_bias([None], ["first"], seed=1), "at least one pair"),
    ],
)
def test_faults_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# ------------------------------------------------------------------ real annotations


def test_alpha_of_the_mentat_annotations(datasets):
    "Alpha of every question of the release, against the krippendorff package, in the estimate and in replicates."
    from mhbench.studies.mentat.annotations import annotation_arrays, load_annotations

    a = annotation_arrays(load_annotations(datasets / "mentat" / "annotated_data").ratings)
    assert len(a.scores) == 600 and len(np.unique(a.questions)) == 61
    for q in np.unique(a.questions):
        x = np.asarray(a.scores)[a.questions == q].astype(float)
        if len(x) < 2:
            continue
        i = bootstrap(partial(agreement.krippendorff_alpha, level="interval"), x, axis=-1, n=20, seed=1)
        w = next(draw_weights(x.shape[1], 20, seed=1)).astype(int)
        close(i.estimate, krippendorff.alpha(x, level_of_measurement="interval"))
        close(i.replicates, [reference_alpha(np.repeat(x, k, axis=1), "interval") for k in w])


def test_pabak_of_three_categories_by_hand():
    "Seven of ten agree: (3 x 0.7 - 1) / (3 - 1), and with the same answers in two categories 2 x 0.7 - 1."
    a = list("aaabbbcccc")
    b = list("aaabbacacb")
    two = ["x"] * 5 + ["y"] * 5, ["x"] * 5 + ["y"] * 2 + ["x"] * 3
    assert agreement.pabak(a, b, categories=3) == pytest.approx((3 * 0.7 - 1) / 2)
    assert agreement.pabak(*two) == pytest.approx(2 * 0.7 - 1)
    aligned = consensus.alignment(a, [b, b, b], metric="pabak")
    assert aligned.agreement.estimate == pytest.approx((3 * 0.7 - 1) / 2)


def test_the_best_annotator_alone_is_the_best_of_them():
    rng = np.random.default_rng(4)
    truth = rng.choice(list("ab"), 60)
    wrong = [rng.random(60) < rate for rate in (0.4, 0.05, 0.3)]
    annotators = [np.where(w, np.where(truth == "a", "b", "a"), truth) for w in wrong]
    found = consensus.best_ensemble(annotators, [truth, truth, truth], metrics=["percent_agreement"], n=40, seed=1)
    assert int(found["percent_agreement"].values[: len(annotators)].argmax()) == 1  # single annotators come first


def test_a_pair_of_no_relatives_without_a_common_item_has_no_preference_and_stops_nobody():
    scores = np.full((2, 2, 8), np.nan)  # judge, student, item
    scores[0, 0, :4] = scores[1, 0, :4] = [60, 70, 80, 90]
    scores[0, 1, 4:] = [60, 70, 80, 90]  # nobody else judged the second student
    found = bias.family_bias(
        scores, ["j", "k"], ["s", "t"], {"j": "x", "s": "x", "k": "y", "t": "z"}, others=True, seed=1
    )
    none = [b for b in found if (b.annotator, b.student) == ("j", "t")]
    assert [b.difference.n for b in none] == [0] and none[0].kind == "other"


@pytest.mark.parametrize(
    ("measure", "left_out", "n_rarer", "kind"),
    [
        ("cohen_kappa", [0.5, 0.4, 0.6, 0.5], 1, "rare"),
        ("cohen_kappa", [0.5, 0.4, 0.6, 0.5], 2, "jackknife"),
        ("cohen_kappa", [0.5, 0.4, np.nan, 0.5], 2, "rare"),
        ("percent_agreement", [0.5, 0.4, np.nan, 0.5], 2, "rare"),
        ("percent_agreement", [0.5, 0.4, 0.6, 0.5], 0, "jackknife"),
        ("cohen_kappa", [0.5, 0.4, 0.6], 2, "jackknife"),
        ("cohen_kappa", [0.5, 0.4], 2, "few"),
        ("cohen_kappa", [np.nan] * 4, 2, "none"),
        ("cohen_kappa", [1.0, np.nan, 1.0, 1.0], 2, "wilson"),
        ("cohen_kappa", [1.0, 1.0, 1.0, 1.0], 1, "rare"),
    ],
)
def test_a_coefficient_has_an_interval_where_the_rarer_label_is_in_two_units(measure, left_out, n_rarer, kind):
    "And where it is defined without each of three units or more; perfect agreement needs no standard error."
    codes = np.zeros((2, 8), int)
    codes[:, :n_rarer] = 1
    unit = np.arange(8) % len(left_out)
    j = jackknife.Jackknife(left_out[0], np.array(left_out), len(left_out))
    e = jackknife.coefficient_estimate(j, measure, codes, 2, unit, n=8, n_clusters=8, level=0.9)
    assert e.kind == kind and np.isfinite(e.ci_low) == (kind in ("jackknife", "wilson"))
    if kind == "jackknife":
        times = stats.t.ppf(0.95, min(j.df, n_rarer) if measure == "cohen_kappa" else j.df)
        lowest = jackknife.lowest_agreement(codes, 2) if measure == "cohen_kappa" else 0.0
        close([e.ci_low, e.ci_high], jackknife.range_limits(0.5, j.se, times, lowest))
    if kind == "wilson":
        squared = stats.t.ppf(0.95, 2) ** 2
        lowest = jackknife.lowest_agreement(codes, 2)
        close([e.ci_low, e.ci_high], [lowest + (1 - lowest) * 4 / (4 + squared), 1])


def test_units_are_mixed_where_half_of_an_item_s_labels_are_not_the_commonest():
    "Three raters and four, and who did not rate: of six units three, one by two items."
    columns = ["aab", "abb", "aa.", "ab.", "ab.", "abab", "aaab", "bb."]
    codes = np.array([[{"a": 0, "b": 1}.get(c, -1) for c in column.ljust(4, ".")] for column in columns]).T
    codes = np.hstack([codes, np.zeros((4, 5), int)])  # `a` is the commonest
    unit = np.array([0, 1, 0, 2, 2, 3, 4, 5, *[4] * 5])
    assert jackknife._count_mixed_units(codes, unit) == 4


def test_an_item_that_some_rated_counts():
    labels = np.array(
        [["a", "b", "a", None, "b"], ["a", "b", None, None, "b"], ["a", "a", "a", "b", None]], dtype=object
    )
    found = jackknife.agreement_estimate(labels, "percent_agreement")
    assert (found.n, found.n_clusters) == (4, 4)  # the fourth has one label, which agrees with nobody


def test_answers_with_one_label_narrow_no_interval():
    "Ten of a hundred answers were rated twice: n, limits and kind are those of the ten alone."
    rng = np.random.default_rng(7)
    labels = np.full((2, 100), None, dtype=object)
    labels[0] = rng.choice(["a", "b"], 100)
    for agree in (10, 8):
        labels[1] = None
        labels[1, :10] = np.where(np.arange(10) < agree, labels[0, :10], np.where(labels[0, :10] == "a", "b", "a"))
        for measure in ("percent_agreement", "cohen_kappa", "krippendorff_alpha"):
            found = jackknife.agreement_estimate(labels, measure)
            assert found == jackknife.agreement_estimate(labels[:, :10], measure)
            assert found.n == found.n_clusters == 10
    panel = np.tile(labels[0], (3, 1))
    panel[:, 40:] = [["a"] * 60, ["b"] * 60, ["c"] * 60]  # no consensus: nothing to agree with
    aligned = consensus.alignment(labels[0], panel)
    assert (aligned.agreement.n, aligned.ceiling.n_clusters) == (40, 40)
    assert consensus.leave_one_out_ceiling(panel).mean.n_clusters == 40
    assert consensus.alignment(labels[1], panel, metric="percent_agreement").agreement.n == 10
    few = consensus.alignment(labels[1], panel)
    assert few.difference.kind == "few" and few.overlap in (True, False)
    nobody = consensus.alignment(np.full(100, None, dtype=object), panel)
    assert nobody.overlap is None and nobody.agreement.n == 0


def test_an_ensemble_counts_the_labels_of_its_members():
    "The best judge labelled thirty of two hundred answers; another labelled all."
    rng = np.random.default_rng(3)
    truth = rng.choice(["a", "b"], 200)
    sparse = truth.astype(object)
    sparse[30:] = None
    noise = np.where(rng.random(200) < 0.4, "a", truth).astype(object)
    e = consensus.best_ensemble([sparse, noise], np.tile(truth, (3, 1)), metrics=["percent_agreement"], n=30, seed=1)
    assert e["percent_agreement"].members == (0,)
    assert (e["percent_agreement"].score.n, e["percent_agreement"].score.n_clusters) == (30, 30)


def test_nan_among_texts_is_no_label():
    for labels in (["a", np.nan, " "], [["a", np.nan, None]], np.array(["a", np.nan, ""], dtype=object)):
        assert agreement.is_label(labels).ravel().tolist() == [True, False, False]


def test_codes_to_ignore_and_blanks_are_missing():
    numbers = np.array([[1, 2, 99, 1], [1, 2, 99, 2]])
    strings = np.array([["a", "b", "", "a"], ["a", "b", " ", "b"]], dtype=object)
    for labels, ignore in ((numbers, (99,)), (numbers.astype(float), (99,)), (strings, ())):
        found = jackknife.agreement_estimate(labels, "percent_agreement", ignore=ignore)
        assert (found.n, found.estimate) == (3, pytest.approx(2 / 3))
