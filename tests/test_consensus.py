"Consensus and comparisons with single members: rules at their edges, each by hand."

import itertools

import numpy as np
import pytest
import scipy.stats

from mhbench.stats.consensus import (
    Members,
    _limits_of_the_best,
    _search_result,
    agreement_with_members,
    alignment,
    best_ensemble,
    interval_column,
    leave_one_out_ceiling,
    majority,
)
from mhbench.stats.estimate import Estimate
from mhbench.stats.jackknife import Jackknife, agreement_estimate, jackknife, range_limits
from mhbench.stats.multi_reader import two_way_variance
from mhbench.stats.resample import bootstrap, mean


@pytest.mark.parametrize(
    ("column", "together", "strict"),
    [
        ("aab", "a", "a"),
        ("ab.", None, None),  # a tie of two who gave a label
        ("aabb", None, None),
        ("abc", None, None),
        ("a..", "a", None),  # one rater, and two or more abstained
        ("a.", "a", "a"),  # one abstained
        ("a. ", "a", "a"),  # and one was not asked
        ("a  ", "a", "a"),
        ("aa.", "a", "a"),
        ("...", None, None),
        ("   ", None, None),
    ],
)
def test_a_majority_is_more_than_half_of_who_gave_a_label(column, together, strict):
    labels = np.array([["x", {".": "Abstain", " ": None}.get(c, c)] for c in column], dtype=object)
    assert majority(labels).tolist() == ["x", together] and majority(labels, alone=False).tolist() == ["x", strict]
    numbers = majority(np.array([[1.0, 2.0], [1.0, 3.0]]))
    assert numbers[0] == 1.0 and np.isnan(numbers[1])


def members(low: float, high: float, n_raters: int = 8, between: float = 0.01, shared: float = 0.0) -> Members:
    e = Estimate(90, 30, (low + high) / 2, low, high, 0.9, "items and raters")
    return Members(0.6, 0.6, e, n_raters, 0, between, shared, np.zeros(n_raters))


@pytest.mark.parametrize(
    ("limits", "verdict"),
    [
        ((-0.09, 0.3), "non-inferior"),
        ((-0.1, 0.05), "undecided"),  # it reaches the margin
        ((-0.3, -0.11), "inferior"),
        ((-0.25, -0.1), "undecided"),
        ((-0.15, 0.04), "undecided"),  # narrower than twice the margin: more of anything may not help
        ((-0.15, 0.06), "undecided, for want of raters"),
    ],
)
def test_a_member_s_equal_is_one_whose_interval_stays_above_the_margin(limits, verdict):
    assert members(*limits).verdict(0.1) == verdict


def test_what_is_wanted_is_named():
    assert members(-0.15, 0.06, shared=0.004).verdict(0.1) == "undecided, for want of answers"  # no panel is enough
    assert members(np.nan, np.nan, 5).verdict(0.1) == "undecided, for want of raters"
    assert members(np.nan, np.nan, 6).verdict(0.1) == "undecided, for want of answers"


def test_so_many_raters_are_needed_that_the_interval_is_narrower_than_the_margin():
    half = lambda r, m: scipy.stats.t.ppf(0.95, r - 1) * np.sqrt(m.between * m.n_raters / r + m.shared)
    for m in (members(-0.2, 0.1), members(-0.2, 0.1, shared=0.001), members(-0.2, 0.1, between=1e-6)):
        for margin in (0.1, 0.15):
            enough = [r for r in range(6, 51) if half(r, m) < margin]
            assert m.needed(margin) == (enough[0] if enough else None)
    m = members(-0.2, 0.1)
    needed = m.needed(0.15)
    assert m.needed(0.15, needed) == needed and m.needed(0.15, needed - 1) is None


def plain_difference(x: np.ndarray, used: list[int]) -> float:
    "Mean share of equal answers of the last row with each member, less that of members with others."
    share = lambda a, b: np.mean([p == q for p, q in zip(x[a], x[b])])
    own = [share(len(x) - 1, s) for s in used]
    return np.mean(own) - np.mean([share(a, b) for a in used for b in used if a != b])


def test_beside_members_is_the_mean_of_pairs_with_an_interval_for_raters_and_cases():
    rng = np.random.default_rng(2)
    labels = rng.choice(list("ab"), (8, 40), p=[0.7, 0.3])
    cases = np.arange(40) // 2
    got = agreement_with_members(labels[-1], labels[:-1], clusters=cases, level=0.9)
    assert got.difference.estimate == pytest.approx(plain_difference(labels, list(range(7))))
    assert got.agreement - got.members == pytest.approx(got.difference.estimate)
    assert got.without == pytest.approx([plain_difference(labels, [s for s in range(7) if s != k]) for k in range(7)])
    assert (got.difference.n, got.difference.n_clusters, got.n_raters, got.n_abstained) == (40, 20, 7, 0)
    half = (got.difference.ci_high - got.difference.ci_low) / 2
    assert got.difference.kind == "items and raters" and got.difference.level == 0.9
    assert half >= scipy.stats.t.ppf(0.95, 6) * np.sqrt(got.between + got.shared) - 1e-12
    few = agreement_with_members(labels[-1], labels[:5])
    assert (few.difference.kind, np.isnan(few.difference.ci_low), few.n_raters) == ("raters", True, 5)
    assert agreement_with_members(labels[-1], labels[:6]).difference.kind == "items and raters"
    assert (
        agreement_with_members(labels[-1], labels[:6], clusters=np.arange(40) // 8).difference.kind == "few"
    )  # five cases


@pytest.mark.parametrize("seed", range(3))
def test_the_interval_beside_members_is_that_of_each_deletion_computed_anew(seed):
    "Labels are missing here and there: what pairs have in common differs, and each is left out in turn."
    rng = np.random.default_rng(seed)
    labels = rng.choice(list("ab"), (8, 48), p=[0.7, 0.3]).astype(object)
    labels[rng.random((8, 48)) < 0.25] = None
    cases = np.arange(48) // 3

    def difference(members, keep):
        return agreement_with_members(labels[-1][keep], labels[members][:, keep]).difference.estimate

    members = np.arange(7)
    keeps = [np.ones(48, bool), *(cases != c for c in range(16))]
    table = np.array([[difference(m, k) for k in keeps] for m in (members, *(np.delete(members, j) for j in members))])
    between, shared, items = two_way_variance(table)
    half = scipy.stats.t.ppf(0.975, 6) * np.sqrt(max(between + shared, items))
    got = agreement_with_members(labels[-1], labels[:-1], clusters=cases)
    assert (got.between, got.shared) == pytest.approx((between, shared))
    limits = got.difference.ci_low, got.difference.ci_high
    assert limits == pytest.approx((table[0, 0] - half, table[0, 0] + half))


def test_members_with_ten_common_answers_are_compared_and_others_left_out():
    rng = np.random.default_rng(3)
    labels = rng.choice(list("ab"), (9, 30)).astype(object)
    labels[0, 10:], labels[1, 9:] = None, None
    annotator = rng.choice(list("ab"), 30).astype(object)
    annotator[:2] = "Abstain"  # asked, and no answer
    got = agreement_with_members(annotator, labels)
    assert (got.n_raters, got.n_abstained, len(got.without)) == (8, 2, 8)
    annotator[0] = None  # not asked: the first member has nine in common
    assert agreement_with_members(annotator, labels).n_raters == 7
    nobody = agreement_with_members(np.full(30, None), labels)
    assert (nobody.n_raters, nobody.difference.n) == (0, 0) and np.isnan([nobody.agreement, nobody.members]).all()


def test_a_column_of_an_interval_has_its_own_replicates():
    x = np.stack([np.arange(8.0), np.full(8, np.nan)], 1)
    i = bootstrap(mean, x, n=40, seed=1)
    first, second, both = interval_column(i, 0), interval_column(i, 1), interval_column(i, [0, 1])
    assert (first.estimate, first.undefined, second.undefined, both.undefined) == (3.5, 0, 40, 40)
    assert first.replicates.tolist() == i.replicates[:, 0].tolist() and both.estimate.shape == (2,)


def test_an_annotator_is_compared_on_thirty_answers_or_more():
    rng = np.random.default_rng(5)
    truth = rng.choice(list("ab"), 60)
    noisy = lambda p: np.where(rng.random(60) < p, truth, np.where(truth == "a", "b", "a")).astype(object)
    panel, annotator = np.stack([noisy(0.85) for _ in range(5)]), noisy(0.7)
    for n, kind in ((30, "t"), (29, "few")):
        a = alignment(annotator[:n], panel[:, :n])
        assert a.difference.kind == kind and np.isnan(a.p_value) == np.isnan(a.difference.ci_low) == (kind == "few")
        assert a.agreement.n == n
    a = alignment(annotator, panel, level=0.9)
    assert a.difference.estimate == pytest.approx(a.agreement.estimate - a.ceiling.estimate)
    meets = a.agreement.ci_high >= a.ceiling.ci_low and a.ceiling.ci_high >= a.agreement.ci_low
    assert a.overlap is bool(meets) and a.agreement.level == a.difference.level == 0.9
    assert (a.p_value < 0.1) == (a.difference.ci_low > 0 or a.difference.ci_high < 0)
    assert alignment(panel[0], panel).overlap is True and a.row()["difference"] == a.difference.estimate
    constant = alignment(np.full(60, "a"), panel)  # a kappa of 0 whatever is drawn: no interval
    assert np.isnan(constant.agreement.ci_low) and not np.isnan(constant.ceiling.ci_low)
    assert constant.overlap is None and np.isnan([constant.difference.ci_low, constant.p_value]).all()
    some = annotator.copy()
    some[:4] = None
    has_consensus = np.array([2 * max(np.sum(c == "a"), np.sum(c == "b")) > 5 for c in panel.T])
    assert alignment(some, panel).n_left_out == has_consensus[:4].sum()
    several = alignment(np.stack([annotator, some]), panel)
    assert several[0].agreement == alignment(annotator, panel).agreement and len(several) == 2
    with pytest.raises(
        ValueError, match=r"annotator must have one label an item of the panel; got \(59,\) for \(5, 60\)"
    ):
        alignment(annotator[1:], panel)


def test_a_ceiling_is_each_rater_against_the_majority_of_the_others():
    from sklearn.metrics import cohen_kappa_score

    rng = np.random.default_rng(6)
    panel = np.where(rng.random((5, 40)) < 0.8, np.arange(40) % 2, 1 - np.arange(40) % 2)
    got = leave_one_out_ceiling(panel, level=0.9)
    by_hand = []
    for k in range(5):
        votes = np.delete(panel, k, 0).sum(0)
        has = votes != 2
        by_hand.append(cohen_kappa_score(panel[k][has], votes[has] > 2))
    assert [e.estimate for e in got.per_rater] == pytest.approx(by_hand)
    assert got.mean.estimate == pytest.approx(np.mean(by_hand)) and got.mean.level == 0.9
    n_compared = [(np.delete(panel, k, 0).sum(0) != 2).sum() for k in range(5)]
    assert [e.n for e in got.per_rater] == n_compared and {e.level for e in got.per_rater} == {0.9}
    with pytest.raises(ValueError, match="3"):
        leave_one_out_ceiling(panel[:2])


def test_the_best_of_all_odd_majorities_is_the_one_that_every_majority_is_tried_for():
    from itertools import combinations

    rng = np.random.default_rng(7)
    truth = np.arange(50) % 2
    panel = np.tile(truth, (3, 1))
    annotators = np.where(rng.random((4, 50)) < np.array([[0.6], [0.75], [0.75], [0.8]]), truth, 1 - truth)
    got = best_ensemble(annotators, panel, metrics=("percent_agreement",), n=60, inner=3, seed=1, level=0.9)
    best = got["percent_agreement"]
    subsets = [*combinations(range(4), 1), *combinations(range(4), 3)]
    right = [np.mean((annotators[list(m)].mean(0) > 0.5) == truth) for m in subsets]
    assert best.candidates == subsets and best.values == pytest.approx(right)
    assert best.members == subsets[int(np.argmax(right))] and best.apparent.estimate == pytest.approx(max(right))
    assert best.optimism > 0 and best.score.estimate < max(right) + 0.05 and 0 < best.won <= 1
    assert (best.score.n, best.score.level, best.score.kind, best.apparent.level) == (50, 0.9, "search", 0.9)
    again = best_ensemble(annotators, panel, metrics=("percent_agreement",), n=60, inner=3, seed=1, level=0.9)
    assert again["percent_agreement"].score == best.score
    words = {
        "at most 15 .* got 16": (np.tile(truth, (16, 1)), panel),
        "with the items of labels": (annotators[:, 1:], panel),
        "no ensemble has a defined agreement": (annotators, np.array([[0] * 50, [1] * 50])),
    }
    for message, (a, p) in words.items():
        with pytest.raises(ValueError, match=message):
            best_ensemble(a, p, n=10, seed=1)
    assert len(best_ensemble(np.tile(truth, (1, 1)), panel, n=20, inner=2, seed=1)) == 3


def test_a_search_is_corrected_by_what_its_replicates_gain():
    """Three candidates score 0.6, 0.8, 0.7. The winners of three replicates are 2, 1 and 2: the first has 0.9 where the
    data have 0.7, and so on; the fourth replicate has no value."""
    s = np.array([0.6, 0.8, 0.7])
    outer = np.array([[0.5, 0.7, 0.9], [0.6, 0.85, 0.8], [-np.inf, -np.inf, 0.75], [-np.inf] * 3])
    corrected = np.array([0.8, 0.8, 0.74, np.nan])
    got = _search_result("kappa", s, outer, corrected, ["x", "y", "z"], {"n": 9, "n_clusters": 8, "level": 0.9})
    optimism = (0.2 + 0.05 + 0.05) / 3
    error = (0.1 + 0.0 + 0.04) / 3
    assert got.optimism == pytest.approx(optimism) and got.score.estimate == pytest.approx(0.8 - optimism - error)
    assert (got.members, got.won, got.score.undefined, got.apparent.undefined) == ("y", pytest.approx(1 / 3), 1, 2)
    assert (got.apparent.n, got.apparent.level) == (8, 0.9)
    assert (got.apparent.ci_low, got.apparent.ci_high) == pytest.approx(tuple(np.quantile([0.7, 0.85], [0.05, 0.95])))
    with pytest.raises(ValueError, match="some replicate must have a defined kappa"):
        _search_result("kappa", s, outer[3:], corrected[3:], "xyz", {"n": 9, "n_clusters": 8, "level": 0.9})


def test_of_one_candidate_the_limits_are_its_own_and_of_many_the_lower_one_is_lower():
    rng = np.random.default_rng(8)
    x = rng.normal(0.5, 0.1, (30, 6))
    j = jackknife(lambda c, *, weights: mean(c, weights=weights), x)
    best = int(np.argmax(j.value))
    t = scipy.stats.t.ppf(0.975, 29) * j.at(best).se
    alone = Estimate(30, 30, j.value[best], j.value[best] - t, j.value[best] + t, 0.95, "t")
    corrected = Estimate(30, 30, 0.48, np.nan, np.nan, 0.95, "none", 3)
    got = _limits_of_the_best(alone, j, corrected, 0.0, 1)
    assert (got.estimate, got.ci_high, got.undefined, got.kind) == (0.48, alone.ci_high, 3, "search")
    assert got.ci_low < alone.ci_low
    none = _limits_of_the_best(alone._replace(ci_low=np.nan), j, corrected, 0.0, 1)
    assert none == alone._replace(ci_low=np.nan, estimate=0.48, undefined=3) or np.isnan(none.ci_low)


def best_of(left_out, value, alone, estimate, lowest=0.0, seed=3):
    "The limits of the best of candidates with these values without each unit."
    j = Jackknife(np.asarray(value), left_out, len(left_out))
    return _limits_of_the_best(alone, j, Estimate(30, 30, estimate, np.nan, np.nan, 0.95, "none", 3), lowest, seed)


@pytest.mark.parametrize("estimate", [0.48, 0.1, 0.99])
def test_the_lower_limit_of_the_best_is_at_the_quantile_of_the_largest_error_of_all(estimate):
    """Of those that vary and are defined without each unit: two thousand draws of studentised errors, as they are
    written; both limits reach to an estimate that the correction took beyond them.
    """
    rng = np.random.default_rng(8)
    left_out = 0.5 + 0.01 * rng.normal(size=(12, 5))
    left_out[:, 1], left_out[4, 2] = 0.4, np.nan
    value = np.array([0.5, 0.4, np.nan, 0.55, 0.52])
    alone = Estimate(40, 12, 0.55, 0.35, 0.7, 0.9, "jackknife")
    got = best_of(left_out, value, alone, estimate)
    deviations = left_out[:, [0, 3, 4]] - left_out[:, [0, 3, 4]].mean(0)
    generator = np.random.default_rng(3)
    scale = np.sqrt(generator.chisquare(11, 2000) / 11)
    errors = generator.normal(size=(2000, 12)) @ (deviations / np.sqrt((deviations**2).sum(0)))
    times = np.quantile(errors.max(1) / scale, 0.9)
    low = range_limits(0.55, np.sqrt(11 * left_out[:, 3].var()), times, 0.0)[0]
    assert low < 0.55 and got.ci_low == pytest.approx(min(low, 0.35, estimate))
    assert (got.estimate, got.ci_high) == (estimate, max(0.7, estimate))
    assert (got.n, got.n_clusters, got.level, got.undefined, got.kind) == (40, 12, 0.9, 3, "search")


def test_the_best_of_candidates_that_do_not_vary_keeps_the_limits_that_it_has_alone():
    "Its corrected value is within the range of the measure."
    alone = Estimate(40, 12, 0.55, 0.35, 0.7, 0.9, "jackknife")
    same = best_of(np.full((12, 2), 0.5), [0.5, 0.5], alone, 1.2)
    assert same == alone._replace(estimate=1.0, undefined=3)
    assert best_of(np.full((12, 2), 0.5), [0.5, 0.5], alone, -0.3, lowest=-0.2).estimate == -0.2


@pytest.mark.parametrize("place", [None, 0, 1])
@pytest.mark.parametrize("metric", ["cohen_kappa", "percent_agreement", "pabak"])
def test_the_best_of_a_search_has_the_upper_limit_of_its_agreement_with_the_majority(metric, place):
    """And the lower one, where nobody else is tried; a worse annotator of fewer answers is before or after it. Some
    answers of the panel have no majority; three answers a case.
    """
    rng = np.random.default_rng(9)
    truth = rng.choice(list("ab"), 60, p=[0.7, 0.3])
    panel = np.tile(truth, (3, 1)).astype(object)
    panel[:, :30:3] = np.array([["a"], ["b"], [None]])
    best, worse = (np.where(rng.random(60) < p, truth, "b").astype(object) for p in (0.8, 0.3))
    best[1:13:3], worse[::2] = None, None
    case, annotators = np.arange(60) // 3, [best] if place is None else [worse, best] if place == 0 else [best, worse]
    got = best_ensemble(annotators, panel, metrics=(metric,), clusters=case, n=40, inner=3, seed=1)[metric]
    alone = agreement_estimate([best, majority(panel)], metric, clusters=case)
    assert got.members == (int(place == 0),) and got.score[:2] == alone[:2] == (46, 20)
    assert got.score.ci_high == pytest.approx(alone.ci_high)
    assert place is not None or got.score.ci_low == pytest.approx(alone.ci_low)


@pytest.mark.parametrize("blank", ["", " ", "Abstain"])
def test_an_answer_left_blank_was_asked_and_agrees_with_no_member(blank):
    "As an abstention is; what was not asked is out. Twenty of sixty answers, of the annotator and of a member."
    rng = np.random.default_rng(1)
    truth = rng.random(60) < 0.5
    members = np.where(np.where(rng.random((7, 60)) < 0.8, truth, ~truth), "yes", "no").astype(object)
    annotator = np.where(np.where(rng.random(60) < 0.9, truth, ~truth), "yes", "no").astype(object)
    annotator[:20] = blank
    found = agreement_with_members(annotator, members)
    assert (found.difference.n, found.n_abstained) == (60, 20)
    assert found.agreement == pytest.approx(np.mean([(annotator == m).mean() for m in members]))
    members[0, :20] = blank
    shares = [np.mean(x[y != blank] == y[y != blank]) for x, y in itertools.permutations(members, 2)]
    assert agreement_with_members(annotator, members).members == pytest.approx(np.mean(shares))
    annotator[:20] = None
    assert (agreement_with_members(annotator, members).difference.n, found.n_raters) == (40, 7)
