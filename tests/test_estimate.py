"""One rule for intervals: a formula for shares and means, the bootstrap's for the rest; none of no width."""

import numpy as np
import pytest
import scipy.special
import scipy.stats
from statsmodels.stats.proportion import proportion_confint

from mhbench.stats.abstention import abstention_by_difficulty, difficulty_strata
from mhbench.stats.agreement import cohen_kappa
from mhbench.stats.differences import mean_difference
from mhbench.stats.estimate import (
    Estimate,
    agresti_coull,
    count_limits,
    estimate,
    fewest_clusters,
    half_width_se,
    inverse_variance_mean,
    mean_limits,
    proportion,
    with_width,
)
from mhbench.stats.jackknife import agreement_estimate
from mhbench.stats.resample import ClusterMean, bootstrap, cluster_mean, mean
from mhbench.stats.soft_labels import group_means, question_alphas
from mhbench.steps.rates import rate_table
from mhbench.studies.medqade.panel import abstention_rates, rater_reliability, student_accuracy

COLUMNS = ["n", "n_clusters", "estimate", "ci_low", "ci_high", "level", "interval"]


def has_no_width(table) -> np.ndarray:
    return (table["ci_low"] == table["ci_high"]).to_numpy()


def test_the_row_of_a_table():
    assert list(estimate(mean, np.arange(5.0), seed=1).row()) == COLUMNS


@pytest.mark.parametrize("k, n", [(0, 7), (3, 7), (7, 7), (81, 263), (1, 1), (1, 9), (9, 10)])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_a_count_against_statsmodels(k, n, level):
    theirs = proportion_confint(k, n, alpha=1 - level, method="agresti_coull")
    assert agresti_coull(k / n, n, level) == pytest.approx(theirs, abs=1e-12)
    kind = "agresti-coull" if n >= 10 else "clopper-pearson"
    if n < 10:
        theirs = proportion_confint(k, n, alpha=1 - level, method="beta")
    right = np.repeat([1.0, 0.0], [k, n - k])
    for got in (proportion(k, n, level), estimate(mean, right, seed=1, level=level, share=True)):
        assert (got.kind, got[3:5]) == (kind, pytest.approx(theirs, abs=1e-12))


@pytest.mark.parametrize("sizes", [[3] * 6, [1, 1, 2, 3, 5, 9], [20] + [2] * 9])
def test_the_variance_of_a_mean_has_no_bias_and_its_degrees_of_freedom(sizes):
    "Cases that differ by their own normal value alone: the working model holds, so both are exact."
    of, rng = np.repeat(np.arange(len(sizes)), sizes), np.random.default_rng(2)
    case = rng.normal(size=(20_000, len(sizes)))
    share = np.array(sizes) / np.sum(sizes)
    found = cluster_mean(case[:4000, of].T, of, 1.0)
    v, df = found.se**2, found.df[0]
    assert v.mean() == pytest.approx((share**2).sum(), rel=5 * v.std() / v.mean() / 4000**0.5)
    assert 2 * v.mean() ** 2 / v.var() == pytest.approx(df, rel=0.12)  # Satterthwaite's definition


def test_cases_of_one_size_have_students_interval_where_values_are_symmetric():
    means = np.array([-3.0, -1, -0.5, 0.5, 1, 3])
    got = estimate(mean, np.repeat(means, 4) + np.tile([-1.0, 1], 12), clusters=np.repeat(np.arange(6), 4), seed=1)
    assert got[3:5] == pytest.approx(tuple(scipy.stats.ttest_1samp(means, 0).confidence_interval()), abs=1e-9)


def test_a_skewed_mean_is_held_more_often_than_by_student():
    rng, held = np.random.default_rng(5), np.zeros(2)
    for _ in range(600):
        x = rng.exponential(size=10)
        ours, t = estimate(mean, x, seed=1), scipy.stats.ttest_1samp(x, 0).confidence_interval()
        held += [ours.ci_low <= 1 <= ours.ci_high, t.low <= 1 <= t.high]
    assert held[0] >= 0.92 * 600 > held[1]


@pytest.mark.parametrize("clustered", [False, True])
def test_the_numbers_are_the_bootstraps_with_tails_for_few_clusters(clustered):
    x = np.random.default_rng(1).random(30)
    clusters = np.arange(30) // 3 if clustered else None
    k = 10 if clustered else 30
    ours = estimate(mean, x, clusters=clusters, n_boot=300, seed=5, level=0.9, method="percentile")
    theirs = bootstrap(mean, x, clusters=clusters, n=300, seed=5, level=0.9)
    tail = scipy.stats.norm.sf(np.sqrt(k / (k - 1)) * scipy.stats.t.ppf(0.95, k - 1))
    ends = np.quantile(theirs.replicates, [tail, 1 - tail])
    assert ours[2:6] == pytest.approx((theirs.estimate, *ends, 0.9), abs=1e-12)
    assert ours.ci_low < theirs.ci_low and ours.ci_high > theirs.ci_high
    assert (ours.n, ours.n_clusters, ours.kind) == (30, k, "bootstrap")


@pytest.mark.parametrize("n_clusters, kind", [(5, "few"), (6, "hall")])
def test_few_clusters_have_no_interval_of_a_mean(n_clusters, kind):
    x = np.random.default_rng(1).random(6 * n_clusters)
    got = estimate(mean, x, clusters=np.arange(len(x)) % n_clusters, seed=1)
    assert (
        got.kind == kind and np.isnan(got.ci_low) == (kind == "few") and (got.n, got.n_clusters) == (len(x), n_clusters)
    )


@pytest.mark.parametrize("low, high", [(0.0, 100.0), (1.0, 5.0)])
def test_the_mean_of_values_within_a_range_has_limits_within_it(low, high):
    x = low + (high - low) * np.array([1, 1, 0.98, 1, 0.6, 1, 0.95, 1])
    assert estimate(mean, x, seed=1).ci_high > high  # as of a number without a range
    found = estimate(mean, x, seed=1, within=(low, high))
    of_share = estimate(mean, (x - low) / (high - low), seed=1, share=True)
    assert found.ci_low == pytest.approx(low + (high - low) * of_share.ci_low)
    assert low < found.ci_low < found.estimate < found.ci_high <= high
    assert found.estimate == pytest.approx(x.mean()) and found.kind == of_share.kind
    assert np.isnan(estimate(mean, np.full(8, high), seed=1, within=(low, high)).ci_low)  # nothing varies
    with pytest.raises(ValueError, match="values must be within"):
        estimate(mean, x, seed=1, within=(low, high - 1))


@pytest.mark.parametrize("cases, size, share, likeness", [(12, 3, 0.8, 0.8), (20, 10, 0.9, 0.4), (40, 3, 0.95, 0.4)])
def test_shares_over_cases_cover_and_are_no_wider_than_they_need(cases, size, share, likeness):
    "The degrees of freedom are those of the cases with the rarer outcome, two more and one less."
    rng = np.random.default_rng(cases)
    held, width = [], []
    for _ in range(200):
        a = (1 - likeness) / likeness
        p = rng.beta(share * a, (1 - share) * a, cases)
        x = (rng.random((cases, size)) < p[:, None]).astype(float)
        if x.std() > 0:
            e = estimate(mean, x.ravel(), clusters=np.repeat(np.arange(cases), size), seed=1, share=True)
            held.append(e.ci_low <= share <= e.ci_high)
            width.append(e.ci_high - e.ci_low)
    assert np.mean(held) > 0.9 and np.mean(width) < {12: 0.58, 20: 0.24, 40: 0.16}[cases]


def test_limits_from_elsewhere_of_few_clusters_are_none():
    assert Estimate.from_limits(0.65, 0.6, 0.7, n=20, n_clusters=2, kind="bootstrap").kind == "few"
    assert Estimate.from_limits(0.65, 0.6, 0.7, n=20, n_clusters=2, kind="t").ci_low == 0.6


@pytest.mark.parametrize("sizes", [[5] * 6, [10] * 10, [1, 2, 3, 5, 8, 10, 12, 20], [5] * 20])
@pytest.mark.parametrize("centre, sd", [(0.0, 0.3), (0.0, 1.5), (3.0, 1.5)])
def test_a_share_over_clusters_is_covered(sizes, centre, sd):
    "Percentile intervals hold .85 of the truth with six cases of five answers."
    rng, samples, of = np.random.default_rng(3), 400, np.repeat(np.arange(len(sizes)), sizes)
    truth = scipy.special.expit(centre + rng.normal(0, sd, 200_000)).mean()
    held = 0
    for s in range(samples):
        right = rng.random(len(of)) < scipy.special.expit(centre + rng.normal(0, sd, len(sizes)))[of]
        got = estimate(mean, right.astype(float), clusters=of, seed=s, share=True)
        held += got.ci_low <= truth <= got.ci_high
    assert held >= 0.91 * samples  # .95 less three standard errors and a half


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_share_of_all_or_none_counts_cases(value):
    got = estimate(mean, np.full(18, value), clusters=np.arange(18) // 3, seed=1, share=True)
    assert (got.n, got.n_clusters, got.kind) == (18, 6, "clopper-pearson")
    assert (got.ci_low, got.ci_high) == pytest.approx(proportion_confint(6 * value, 6, method="beta"))
    assert estimate(mean, np.full(15, value), clusters=np.arange(15) // 3, seed=1, share=True).kind == "few"


@pytest.mark.parametrize(
    "x, clusters, share",
    [
        (np.ones(5), None, False),  # no share: nothing is known of its spread
        (np.full(5, 0.5), None, True),
        (np.array([1.0, 0, 1]), np.zeros(3), True),  # one cluster
        (np.full(4, np.nan), None, True),
        (np.array([]), None, True),
    ],
)
def test_no_interval_where_nothing_varies(x, clusters, share):
    got = estimate(mean, x, clusters=clusters, seed=1, share=share)
    assert got.kind == "none" and np.isnan([got.ci_low, got.ci_high]).all()
    assert got.n == np.isfinite(x).sum()


def test_a_statistic_that_no_replicate_defines_has_no_interval():
    same = np.array(["a"] * 6, object)
    got = estimate(cohen_kappa, same, same, seed=1, n_boot=50)
    assert got.kind == "none" and got.undefined == 50 and np.isnan(got.estimate)


def test_units_with_a_value_are_counted_whatever_the_axis():
    labels = np.array([["a", "b", None, None], ["a", None, None, "b"]], object)  # (raters, items)
    got = estimate(lambda x: float((x == "a").mean()), labels, axis=-1, seed=1, n_boot=20)
    assert got.n == 3  # nobody rated the third


def test_limits_of_no_width_are_none():
    low, high = with_width([0.1, 0.5, np.nan, 0.2], [0.2, 0.5, 0.4, 0.2 + 1e-12])
    assert low[0] == 0.1 and high[0] == 0.2 and np.isnan(low[1:]).all() and np.isnan(high[1:]).all()
    assert Estimate.from_limits(np.inf, 1.0, np.inf, n=9, kind="bootstrap").kind == "bootstrap"


def test_students_who_are_always_right_have_an_interval():
    labels = np.full((3, 2, 12), "Correct", dtype=object)
    labels[:, 1, :6] = "Incorrect"
    table = student_accuracy(labels, ["always", "half"])
    assert table["interval"].tolist() == ["agresti-coull", "agresti-coull"] and not has_no_width(table).any()
    ends = proportion_confint(12, 12, method="agresti_coull")
    assert table.loc[0, ["ci_low", "ci_high"]].tolist() == pytest.approx(ends)
    assert not has_no_width(rater_reliability(labels, ["always", "half"])).any()
    assert abstention_rates(labels, ["r1", "r2", "r3"])["interval"].tolist() == ["agresti-coull"] * 3


def test_strata_come_in_their_order_and_not_the_alphabets():
    labels = np.full((3, 1, 5), "Correct", dtype=object)
    strata = difficulty_strata(np.array([2.0, 1.2, 0.1, np.nan, 0.7]))
    want = ["<= 0.5", "0.5 to 1", "1 to 1.5", ">= 1.5", "not rated"]
    assert student_accuracy(labels, ["s"], strata)["stratum"].tolist() == want
    gap = difficulty_strata(np.array([2.0, 0.1, 0.1, 0.1, 0.7]))
    empty = student_accuracy(labels, ["s"], gap).set_index("stratum").loc["1 to 1.5"]
    assert list(gap.categories) == want[:4] and empty["n"] == 0 and np.isnan(empty["estimate"])
    named = student_accuracy(labels, ["s"], ["hard", "medium", "easy", "easy", "medium"])
    assert named["stratum"].tolist() == ["hard", "medium", "easy"]
    rows = abstention_by_difficulty(labels[:, 0], np.array([2.0, 1.2, 0.1, np.nan, 0.7]), seed=1).rows()
    assert [r["difficulty"] for r in rows] == want[:4] and {r["interval"] for r in rows} == {"clopper-pearson"}


def test_rates_follow_the_order_of_categories(scored):
    order = ["triage", "diagnosis", "ethics"]
    table = rate_table(scored.assign(category=scored["category"].astype("category").cat.set_categories(order)), seed=1)
    assert table["group"].tolist() == ["all", "triage", "diagnosis"]
    assert rate_table(scored, seed=1)["group"].tolist() == ["all", "diagnosis", "triage"]


@pytest.fixture
def scored():
    from mhbench.records.schema import Item, Response
    from mhbench.steps.score import score_responses

    items = [
        Item(
            item_id=f"q{k}",
            study="demo",
            task="multiple_choice",
            question="?",
            options=["a", "b"],
            key=["A"],
            source="test",
            category=["triage", "diagnosis"][k % 2],
        )
        for k in range(6)
    ]
    said = [Response(item_id=i.item_id, study="demo", model="m", mode="zero_shot", text="A") for i in items]
    return score_responses(items, said)


def test_a_group_of_few_annotations_has_no_interval():
    got = group_means(np.arange(14.0), np.array(["x"] * 7 + ["y"] * 6 + ["z"]))
    assert np.isfinite(got.mean.ci_low).tolist() == np.isfinite(got.mean.ci_high).tolist() == [True, False, False]


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: estimate(mean, np.ones((3, 2)), seed=1), "statistic must give one number"),
        (lambda: estimate(lambda a, b: 0.0, np.ones(3), np.ones(0), seed=1), "same number of units"),
        (lambda: proportion(3, 2), "k must be between 0 and n"),
        (lambda: proportion(3, 20, level=95), "level must be between 0 and 1; got 95"),
        (lambda: estimate(mean, np.arange(9.0), seed=1, level=95), "level must be between 0 and 1; got 95"),
        (lambda: estimate(mean, np.r_[0, 100, 100], seed=1, share=True), "within 0 and 1; got 0 to 100; divide"),
        (lambda: estimate(mean, np.r_[0, 2, 0, 0, 0, 0, 1], seed=1, share=True), "within 0 and 1; got 0 to 2"),
        (lambda: estimate(mean, np.full(8, 150.0), seed=1, within=(0, 100)), "within 0 and 100; got 150 to 150"),
        (lambda: proportion(2.7, 10), "k and n must be whole numbers; got k=2.7, n=10"),
        (lambda: proportion(2, 10.5), "k and n must be whole numbers; got k=2, n=10.5"),
        (lambda: agresti_coull(0.5, 10, 95), "agresti_coull: level must be between 0 and 1; got 95"),
        (lambda: mean_difference(np.arange(9.0), level=1.0), "level must be between 0 and 1; got 1.0"),
        (lambda: agreement_estimate([list("aabb"), list("abab")], level=0), "level must be between 0 and 1; got 0"),
        (lambda: group_means(np.array([50.0, 101]), np.array([1, 1])), "values must lie between 0 and 100; got 101"),
    ],
)
def test_faults_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(("level", "fewest"), [(0.5, 2), (0.8, 4), (0.9, 5), (0.95, 6), (0.99, 8), (0.999, 11)])
def test_the_range_of_so_many_covers_the_median(level, fewest):
    "1 - 2^(1 - n) is the probability; with one fewer it is below the level."
    assert fewest_clusters(level) == fewest
    assert 1 - 2.0 ** (1 - fewest) >= level - 1e-12 > 1 - 2.0 ** (2 - fewest)


@pytest.mark.parametrize("values", ["counts", "shares"])
@pytest.mark.parametrize("level", [0.95, 0.8])
@pytest.mark.parametrize("flipped", [False, True])
def test_a_share_over_cases_has_the_limits_of_its_formula(values, level, flipped):
    "Written down once more, case by case; with all cases alike within themselves it is at its widest."
    rng = np.random.default_rng(11)
    sizes = [1, 2, 2, 3, 4, 4, 5, 6, 7, 9]
    of = np.repeat(np.arange(10), sizes)
    for like in (0.0, 0.9, 1.0):
        case = rng.random(10)[of]
        x = np.where(rng.random(len(of)) < like, case, rng.random(len(of)))
        x = (x < 0.35).astype(float) if values == "counts" else x**3
        x = 1 - x if flipped else x
        n, p, tail = len(x), x.mean(), (1 + level) / 2
        z = scipy.stats.norm.ppf(tail)
        alone = x.var(ddof=1) / n
        known = z**2 * p * (1 - p) / n if values == "counts" else scipy.stats.t.ppf(tail, n - 1) ** 2 * alone
        m = cluster_mean(x, of, 1.0)
        rarer = sum((x if p < 0.5 else 1 - x)[of == c].sum() > 0 for c in range(10))
        between = scipy.stats.t.ppf(tail, max(1, min(m.df, rarer + 1))) ** 2 * max(0, m.se**2 - alone)
        most = scipy.stats.t.ppf(tail, 9) ** 2 * p * (1 - p) * sum(s**2 for s in sizes) / n**2
        n_effective = z**2 * p * (1 - p) / min(known + between, most)
        got = estimate(mean, x, clusters=of, seed=0, share=True, level=level)
        assert got[3:5] == pytest.approx(agresti_coull(p, n_effective, level), rel=1e-9)
        assert (got.kind, got.n, got.n_clusters) == ("agresti-coull", n, 10)


@pytest.mark.parametrize("skewness", [-1.2, -1e-10, 0.0, 0.3, 2.0])
@pytest.mark.parametrize("df", [0.5, 1.0, 9.0])
def test_limits_of_a_mean_are_the_roots_of_hall_s_cubic(skewness, df):
    "Hall 1992: t + a t^2 / 3 + a^2 t^3 / 27 + a / 6 is Student's quantile."
    low, high = mean_limits(ClusterMean(5.0, 2.0, df, 0, 0, skewness), 0.1)
    for limit, quantile in ((low, 0.9), (high, 0.1)):
        t = (5.0 - limit) / 2.0
        cubic = t + skewness * t**2 / 3 + skewness**2 * t**3 / 27 + skewness / 6
        assert cubic == pytest.approx(scipy.stats.t.ppf(quantile, max(df, 1)), abs=1e-8)
    assert mean_limits(ClusterMean(5.0, 2.0, df, 0, 0, skewness))[0] <= low


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"value": 0.5, "limits": (0.4, 0.6), "n": 9, "kind": "t"}, (0.4, 0.6, "t")),
        ({"value": 0.5, "limits": (0.4, 0.6), "n": 9, "n_clusters": 5, "kind": "hall"}, (None, None, "few")),
        ({"value": 0.5, "limits": (0.4, 0.6), "n": 9, "n_clusters": 6, "kind": "hall"}, (0.4, 0.6, "hall")),
        ({"value": 0.5, "limits": (0.4, 0.6), "n": 9, "n_clusters": 1, "kind": "hall"}, (0.4, 0.6, "hall")),
        ({"value": 0.5, "limits": (0.4, 0.6), "n": 9, "n_clusters": 5, "kind": "agresti-coull"}, (None, None, "few")),
        ({"value": 0.5, "limits": (0.4, 0.6), "n": 5, "kind": "agresti-coull"}, (0.4, 0.6, "agresti-coull")),
        ({"value": 0.5, "limits": (0.4, 0.4), "n": 9, "kind": "t"}, (None, None, "none")),
        ({"value": 0.5, "limits": (0.4, 0.4), "n": 9, "kind": "few"}, (None, None, "few")),
        ({"value": np.nan, "limits": (0.4, 0.6), "n": 9, "kind": "t"}, (None, None, "none")),
        ({"value": 1.0, "limits": (1.0, 1.0), "n": 9, "share": True}, (0.025 ** (1 / 9), 1.0, "clopper-pearson")),
        ({"value": 0.0, "limits": (), "n": 9, "share": True}, (0.0, 1 - 0.025 ** (1 / 9), "clopper-pearson")),
        ({"value": 0.5, "limits": (), "n": 9, "share": True}, (None, None, "none")),
        ({"value": 1.0, "limits": (), "n": 9, "n_clusters": 0, "share": True}, (None, None, "none")),
        ({"value": 1.0, "limits": (), "n": 1, "share": True, "level": 0.8}, (0.1, 1.0, "clopper-pearson")),
        ({"value": 1.0, "limits": (), "n": 9}, (None, None, "none")),
    ],
)
def test_an_estimate_has_limits_where_they_say_something(given, expected):
    fields = {k: v for k, v in given.items() if k not in ("value", "limits")}
    got = Estimate.from_limits(given["value"], *given["limits"], **fields)
    low, high, kind = (np.nan if x is None else x for x in expected)
    assert got[3:5] == pytest.approx((low, high), nan_ok=True) and got.kind == kind
    assert got.n_clusters == given.get("n_clusters", given["n"]) and got.level == given.get("level", 0.95)


def test_replicates_have_quantiles_wider_for_few_cases():
    r = np.append(np.random.default_rng(12).normal(size=400) * 0.1 + 0.5, np.nan)
    for k in (6, 30):
        tail = scipy.stats.norm.cdf(np.sqrt(k / (k - 1)) * scipy.stats.t.ppf(0.05, k - 1))
        got = Estimate.from_replicates(0.5, r, n=40, n_clusters=k, level=0.9)
        assert got[3:5] == pytest.approx(np.quantile(r[:-1], [tail, 1 - tail]))
        assert (got.kind, got.undefined, got.n, got.n_clusters) == ("bootstrap", 1, 40, k)
        of_share = Estimate.from_replicates(0.3, r, n=40, n_clusters=k, level=0.9, share=True)
        variance = r[:-1].var() * k / (k - 1) * (scipy.stats.t.ppf(0.95, k - 1) / scipy.stats.norm.ppf(0.95)) ** 2
        assert of_share[3:5] == pytest.approx(agresti_coull(0.3, 0.3 * 0.7 / variance, 0.9))
        assert of_share.kind == "agresti-coull"
    assert Estimate.from_replicates(0.3, r, n=40, n_clusters=4, level=0.9, share=True).kind == "few"
    assert Estimate.from_replicates(0.3, r, n=40, n_clusters=5, level=0.9, share=True).kind == "agresti-coull"
    assert Estimate.from_replicates(1.0, r, n=40, share=True).kind == "bootstrap"
    assert Estimate.from_replicates(1.0, np.ones(9), n=12, n_clusters=12, share=True).kind == "agresti-coull"
    assert Estimate.from_replicates(0.3, r, n=1).kind == "none" == Estimate.from_replicates(0.3, r[-1:], n=9).kind


def test_groups_and_questions_stand_beside_their_own_numbers_in_any_order():
    means = group_means(np.repeat([20.0, 60.0], 8), np.repeat(["b", "a"], 8))
    assert means.groups.tolist() == ["a", "b"] and means.mean.estimate.tolist() == pytest.approx([60, 20])
    alphas = question_alphas([[0, 100], [0, 100], [0, 100], [100, 0]], ["b", "b", "a", "a"])
    assert alphas.questions.tolist() == ["a", "b"] and alphas.alpha[0] < 0 < alphas.alpha[1] == 1


def test_what_is_missing_makes_no_unit_and_no_case():
    nothing = estimate(mean, np.full(3, np.nan), seed=0)
    assert (nothing.n, nothing.n_clusters, nothing.kind) == (0, 0, "none") and np.isnan(nothing.estimate)


def test_an_interval_s_counts_may_be_said():
    i = bootstrap(mean, np.arange(12.0), n=50, seed=1, clusters=np.repeat(range(6), 2), level=0.9)
    got, counted = Estimate.from_interval(i), Estimate.from_interval(i, n=7, n_clusters=8)
    assert (got.n, got.n_clusters, got.level, got.kind) == (12, 6, 0.9, "bootstrap")
    assert (counted.n, counted.n_clusters) == (7, 8)
    other = Estimate.from_interval(i._replace(method="bca", undefined=3))
    assert (other[3:5], other.kind, other.undefined) == ((i.ci_low, i.ci_high), "bca", 3)


def test_an_average_weighs_by_the_inverse_variance_and_a_floor():
    "Weights of 1/4, 1 and 1 (from 1/9, raised to a floor of 1)."
    got = inverse_variance_mean([2.0, 4.0, 7.0], [2.0, 1.0, 1 / 3], floor=1.0)
    m = (2 / 4 + 4 + 7) / 2.25
    half = scipy.stats.norm.ppf(0.975) / 1.5
    assert got == pytest.approx((m, 1 / 1.5, m - half, m + half, (2 - m) ** 2 / 4 + (4 - m) ** 2 + (7 - m) ** 2))
    assert half_width_se(got.ci_low, got.ci_high) == pytest.approx(got.se)
    for estimates, se, words in (
        ([1.0], [0.0], "give floor"),
        ([np.inf], [1.0], "finite"),
        ([], [], "at least 1"),
        ([1.0, 2.0], [1.0], "of one length"),
    ):
        with pytest.raises(ValueError, match=words):
            inverse_variance_mean(estimates, se)
    for share, n in ((-0.1, 3), (1.1, 3), (0.5, 0)):
        with pytest.raises(ValueError, match="share must be between 0 and 1, and n above 0"):
            agresti_coull(share, n)
    assert agresti_coull(0.0, 0.5)[0] == 0.0 and agresti_coull(1.0, 0.5)[1] == 1.0


def test_an_annotation_without_a_value_is_in_no_mean_and_no_count():
    values = np.array([np.nan] * 5 + [50.0, 60, 70, 50, 60, 70, 50, np.nan, 40])
    got = group_means(values, np.repeat(["a", "b"], [12, 2]))
    assert got.n.tolist() == [7, 1] and got.mean.n == 8 and got.mean.estimate[0] == pytest.approx(410 / 7)
    several = group_means(np.column_stack([values, np.where(np.isnan(values), 5.0, np.nan)]), np.repeat(["a", "b"], 7))
    assert several.n.tolist() == [7, 7]


@pytest.mark.parametrize(
    "k, n, level, message",
    [
        (5, 3, 0.95, "k must be between 0 and n; got k=5, n=3"),
        (-1, 30, 0.95, "k must be between 0 and n; got k=-1, n=30"),
        (np.nan, 3, 0.95, "k must be between 0 and n; got k=nan, n=3"),
        (1, 3, 95, "level must be between 0 and 1; got 95"),
    ],
)
def test_limits_of_a_count_need_a_count_among_so_many(k, n, level, message):
    with pytest.raises(ValueError, match=f"count_limits: {message}"):
        count_limits(k, n, level)


def test_a_standard_error_below_zero_is_refused_and_not_raised():
    "Such as that of limits that have changed places."
    with pytest.raises(
        ValueError, match=r"inverse_variance_mean: se must be 0 or more; got -1 \(estimate 0\); exchange"
    ):
        inverse_variance_mean([1, 2, 3], [-1, 0.5, 0.5], floor=0.01)
    with pytest.raises(ValueError, match="se must be 0 or more"):
        inverse_variance_mean([1, 2], half_width_se([0.9, 1.5], [1.1, 1.0]), floor=0.01)


def test_values_beyond_their_range_are_refused_by_percentiles_too():
    "Percentages as a share, and infinite values, among them."
    for settings in ({"method": "percentile"}, {"strata": np.arange(30) % 2}, {}):
        for x, kind in (([1, 2, 500.0], {"within": (0, 100)}), ([10, 20, np.inf], {"within": (0, 100)})):
            with pytest.raises(ValueError, match="values must be within 0 and 100; got"):
                estimate(mean, np.array(x * 10), seed=1, **settings, **kind)
        with pytest.raises(ValueError, match="values must be within 0 and 1; got 10 to 50; divide percentages by 100"):
            estimate(mean, np.array([10, 20, 50.0] * 10), seed=1, share=True, **settings)
    inside = estimate(mean, np.array([1, 2, 99.0] * 10), seed=1, method="percentile", within=(0, 100))
    assert inside.kind == "bootstrap" and inside.estimate == 34
