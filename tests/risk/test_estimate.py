"""Risk estimators against closed forms; the traps; invariances; bad input."""

from __future__ import annotations

import json
import pickle
import time
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reproduction.theory import divergence

from shiftune.datasets import GaussianSites
from shiftune.errors import OverlapWarning, ProblemError
from shiftune.ratio import ULSIF, ClassifierRatio
from shiftune.risk import Guard, RiskEstimate, estimate, optimal_lambda

THETA = 1.0
TRUTH = ((THETA - 0.3) ** 2 + 1.49) / 2  # target x ~ N(0, 1), y ~ N(0.7 x + 0.3, 1)


def draw(means, n, rng, d=1):
    """Losses, known weights and rows of Gaussian sources around a target at 0."""
    sites = GaussianSites(np.column_stack([[0.0, *means], np.zeros((len(means) + 1, d - 1))]))
    X = [sites.draw(j, n, rng) for j in range(1, sites.k + 1)]
    y = [0.7 * x[:, 0] + 0.3 + rng.standard_normal(n) for x in X]
    losses = [(THETA - v) ** 2 / 2 for v in y]
    return losses, [sites.ratio(j)(x) for j, x in enumerate(X, 1)], X, sites


class TestClosedForms:
    losses = (np.array([1.0, 3.0]), np.array([2.0, 2.0, 5.0]))
    weights = (np.array([1.0, 2.0]), np.array([0.5, 1.0, 1.0]))
    z = (np.array([1.0, 6.0]), np.array([1.0, 2.0, 5.0]))

    def test_naive(self):
        risk = estimate(self.losses, self.weights, "naive")
        assert risk.value == pytest.approx(13 / 5)

    def test_unbiased(self):
        risk = estimate(self.losses, self.weights, "unbiased", guard=False)
        assert risk.value == pytest.approx(15 / 5)
        np.testing.assert_allclose(risk.lam, [0.2, 0.2])

    def test_given_lambda(self):
        risk = estimate(self.losses, self.weights, "lambda", lam=[0.2, 0.2], guard=False)
        assert risk.value == pytest.approx(3.0)
        only = estimate(self.losses, self.weights, "lambda", lam=[0.5, 0], guard=False)
        assert only.value == pytest.approx(3.5)

    def test_published_variance_reduced(self):
        div = [divergence(z) for z in self.z]
        lam = optimal_lambda([2, 3], div)
        risk = estimate(self.losses, self.weights, "variance_reduced", guard=False)
        assert risk.value == pytest.approx(lam[0] * 7 + lam[1] * 8)
        np.testing.assert_allclose(risk.lam, lam)
        np.testing.assert_allclose(risk.divergences, div)

    def test_cross_fitted(self):
        """Two folds (the smaller source has two rows): each is weighted by the other's."""
        losses = [np.array([1.0, 3.0, 4.0, 4.5]), np.array([2.0, 2.5, 5.0, 1.0])]
        weights = [np.ones(4), np.ones(4)]
        risk = estimate(losses, weights, divergence="cross_fitted", guard=False)
        value = 0.0
        for f in range(4):  # 4 rows: 4 folds
            others = [np.delete(z, f) for z in losses]
            lam = optimal_lambda([4, 4], [divergence(z) for z in others])
            value += (lam[0] * 4 * losses[0][f] + lam[1] * 4 * losses[1][f]) / 4
        assert risk.value == pytest.approx(value)
        assert risk.lam @ risk.n == pytest.approx(1)

    def test_oracle(self):
        risk = estimate([[1.0, 2.0, 3.0]], method="oracle")
        assert risk.value == pytest.approx(2.0)
        assert risk.variance == pytest.approx(np.var([1, 2, 3]) / 3)

    def test_variance_is_that_of_the_influence_values(self):
        risk = estimate(self.losses, self.weights, "unbiased", guard=False)
        by_hand = sum(0.2**2 * len(z) * divergence(z) for z in self.z)
        assert risk.variance == pytest.approx(by_hand)
        assert risk.influence.sum() == pytest.approx(0)

    def test_sources(self):
        table = estimate(self.losses, self.weights, guard=False, names=["B", "C"]).sources
        assert list(table.index) == ["B", "C"]
        assert table["share"].sum() == pytest.approx(1)
        assert table.loc["B", "mean_weight"] == 1.5
        assert table.loc["B", "ess"] == pytest.approx(9 / 5)

    def test_immutable(self):
        risk = estimate(self.losses, self.weights, guard=False)
        with pytest.raises(AttributeError):
            risk.value = 0.0
        with pytest.raises(ValueError, match="read-only"):
            risk.influence[0] = 0.0

    def test_inputs_are_left_alone(self):
        losses, weights = [a.copy() for a in self.losses], [a.copy() for a in self.weights]
        estimate(losses, weights)
        for a, b in zip(losses + weights, self.losses + self.weights, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.xdist_group("against the truth")  # the replicates are drawn once
class TestAgainstTheTruth:
    """800 replicates of three sources with known ratios, 120 rows each."""

    @pytest.fixture(scope="class")
    @staticmethod
    def replicates():
        rng = np.random.default_rng(11)
        found = {}
        for _ in range(800):
            losses, weights, _, _ = draw([0.3, -0.5, 0.7], 120, rng)
            for name, options in {
                "unbiased": {"method": "unbiased", "guard": False},
                "plug_in": {"guard": False},
                "cross_fitted": {"divergence": "cross_fitted", "guard": False},
                "guarded": {},
            }.items():
                risk = estimate(losses, weights, **options)
                low, high = risk.interval(0.9)
                row = risk.value, risk.stderr, low <= TRUTH <= high
                found.setdefault(name, []).append(row)
        return {name: np.array(rows, dtype=float).T for name, rows in found.items()}

    @pytest.mark.parametrize("name", ["unbiased", "cross_fitted"])
    def test_no_bias(self, replicates, name):
        value = replicates[name][0]
        assert abs(value.mean() - TRUTH) < 4 * value.std() / np.sqrt(len(value))

    def test_naive_is_biased(self):
        losses, weights, _, _ = draw([1.0, 1.4], 20_000, np.random.default_rng(0))
        naive = estimate(losses, method="naive")
        assert abs(naive.value - TRUTH) > 20 * naive.stderr
        corrected = estimate(losses, weights, "unbiased", guard=False)
        assert abs(corrected.value - TRUTH) < 4 * corrected.stderr

    def test_plug_in_is_biased_low_and_cross_fitting_is_not(self, replicates):
        """Trap 2: a small loss makes a small divergence makes a large lambda."""
        plug_in, crossed = replicates["plug_in"][0], replicates["cross_fitted"][0]
        assert plug_in.mean() < TRUTH - 6 * plug_in.std() / np.sqrt(len(plug_in))
        assert abs(crossed.mean() - TRUTH) < abs(plug_in.mean() - TRUTH) / 3

    def test_less_variance_than_unbiased(self, replicates):
        assert replicates["plug_in"][0].std() < 0.95 * replicates["unbiased"][0].std()

    @pytest.mark.parametrize("name", ["unbiased", "cross_fitted"])
    def test_standard_errors_and_intervals(self, replicates, name):
        """Mean standard error within 15 % of the spread; 90 % intervals cover 85 to 95 %.

        (The Monte Carlo error of a coverage over 800 replicates is 1.1 points.)
        """
        value, stderr, covered = replicates[name]
        assert np.sqrt(np.mean(stderr**2)) == pytest.approx(value.std(), rel=0.15)
        assert 0.85 < covered.mean() < 0.95

    def test_the_guard_changes_little_where_sources_overlap(self, replicates):
        change = replicates["guarded"][0] / replicates["plug_in"][0] - 1
        assert np.median(np.abs(change)) < 0.02


class TestNoOverlap:
    """Trap 1: three good sources and one that has no rows near the target."""

    @pytest.mark.parametrize("where", [8.0, 12.0, 40.0])
    def test_known_ratios(self, where):
        rng = np.random.default_rng(1)
        losses, weights, _, _ = draw([0.3, -0.4, 0.5, where], 300, rng)
        published = estimate(losses, weights, guard=False)
        assert published.value < 1e-3 * TRUTH
        assert published.sources["share"].iloc[3] > 0.999
        guarded = estimate(losses, weights, names=["B", "C", "D", "far"])
        low, high = guarded.interval(0.95)
        assert low < TRUTH < high
        assert guarded.sources.loc["far", "left_out"].startswith("no target-like rows")
        assert guarded.sources.loc["far", "lambda"] == 0
        assert guarded.left_out[:3] == ("", "", "")

    @pytest.mark.parametrize("ratio", [ULSIF(), ClassifierRatio()], ids=repr)
    def test_estimated_ratios(self, ratio):
        """Over 10 draws: the published value collapses, the guarded one is right on average.

        (The standard error of a mean of 10 is 0.02 here; plug-in lambdas and uLSIF are each a
        few hundredths low.)
        """
        guarded = []
        for seed in range(10):
            rng = np.random.default_rng(seed)
            _, _, density, sites = draw([0.3, -0.4, 0.5, 20.0], 400, rng)
            losses, _, X, _ = draw([0.3, -0.4, 0.5, 20.0], 400, rng)
            weights = ratio.fit(sites.draw(0, 600, rng), density).weights(X)
            assert estimate(losses, weights, guard=False).value < 0.05 * TRUTH
            guarded.append(estimate(losses, weights))
            assert [bool(r) for r in guarded[-1].left_out] == [False, False, False, True]
        assert np.mean([risk.value for risk in guarded]) == pytest.approx(TRUTH, abs=0.1)

    def test_the_guard_can_be_set(self):
        rng = np.random.default_rng(1)
        losses, weights, _, _ = draw([0.3, 3.0], 300, rng)
        loose = Guard(min_mean_weight=0, max_mean_weight=np.inf, min_ess=0)
        assert estimate(losses, weights, guard=loose).left_out == ("", "")
        with pytest.warns(OverlapWarning):
            assert estimate(losses, weights, guard=Guard(min_mean_weight=1.5)).fallback

    def test_it_decides_by_the_weights_alone(self):
        rng = np.random.default_rng(1)
        losses, weights, _, _ = draw([0.3, -0.4, 9.0], 300, rng)
        other = [rng.exponential(size=300) * 100 for _ in losses]
        assert estimate(losses, weights).left_out == estimate(other, weights).left_out

    def test_nobody_overlaps_falls_back_loudly(self):
        losses = [np.arange(50.0), np.arange(50.0)]
        weights = [np.full(50, 1e-12), np.zeros(50)]
        for method in ("unbiased", "variance_reduced"):
            with pytest.warns(
                OverlapWarning, match="'B': no target-like rows: mean weight 1e-12"
            ) as caught:
                risk = estimate(losses, weights, method, names=["B", "C"])
            assert caught[0].filename == __file__
            assert all(risk.left_out)
            assert risk.sources.loc["B", "mean_weight"] == pytest.approx(1e-12)
            assert risk.method == "naive"
            assert method in risk.fallback
            assert risk.value == pytest.approx(24.5)

    def test_where_sources_hardly_overlap_their_most_like_rows_are_heard(self):
        """Far away: few effective rows, and mean weights far from the 1 they should be."""
        rng = np.random.default_rng(1)
        losses, weights, _, _ = draw([3.3, 3.6], 300, rng)
        assert all(0.01 < w.mean() < 0.6 for w in weights)
        with pytest.warns(OverlapWarning, match="falls back on self-normalised weights"):
            risk = estimate(losses, weights)
        ess = np.array([w.sum() ** 2 / (w**2).sum() for w in weights])
        own = np.array([w @ L / w.sum() for w, L in zip(weights, losses, strict=True)])
        assert risk.method == "self-normalised"
        assert "self-normalised" in risk.fallback
        assert risk.value == pytest.approx(ess @ own / ess.sum())
        np.testing.assert_allclose(risk.sources["share"], ess / ess.sum())
        assert risk.coverage < 0.6
        naive = np.concatenate(losses).mean()
        assert abs(risk.value - TRUTH) < abs(naive - TRUTH)

    @pytest.mark.parametrize(("spread", "ess"), [(0.5, 230), (4.0, 16), (8.0, 6)])
    def test_its_standard_error_is_right_also_for_few_effective_rows(self, spread, ess):
        """Over repeated losses at fixed weights: neither much too small nor much too large."""
        rng = np.random.default_rng(0)
        weights = [0.3 * np.exp(spread * rng.standard_normal(n)) for n in (200, 100)]
        weights = [w * 0.3 / w.mean() for w in weights]
        assert sum(w.sum() ** 2 / (w**2).sum() for w in weights) == pytest.approx(ess, rel=0.3)
        values, variances, covered = [], [], []
        for _ in range(300):
            losses = [rng.exponential(size=200), rng.exponential(size=100)]
            with pytest.warns(OverlapWarning):
                risk = estimate(losses, weights)
            low, high = risk.interval(0.9)
            values.append(risk.value)
            variances.append(risk.variance)
            covered.append(low <= 1 <= high)
        assert 0.7 < np.sqrt(np.mean(variances)) / np.std(values) < 1.6
        assert np.mean(covered) > 0.82

    def test_one_dominant_row_does_not_look_certain(self):
        rng = np.random.default_rng(0)
        losses = [rng.exponential(size=30) for _ in range(4)]
        for rest in (0.0, 1e-9, 1e-3):
            weights = [np.full(30, rest) for _ in range(4)]
            for w in weights:
                w[5] = 3.0
            with pytest.warns(OverlapWarning):
                risk = estimate(losses, weights)
            assert risk.method == "self-normalised"
            assert risk.stderr > 0.1

    def test_too_few_rows_together_fall_back_on_naive(self):
        losses = [np.arange(50.0), np.arange(50.0)]
        weights = [np.eye(50)[3] * 4, np.eye(50)[7] * 4]  # one effective row each
        with pytest.warns(OverlapWarning, match="naive, the uncorrected mean"):
            assert estimate(losses, weights).method == "naive"
        with pytest.warns(OverlapWarning, match="2 effective rows in all"):
            assert estimate(losses, weights, guard=Guard(min_ess_together=2)).value == 5.0

    def test_given_lambda_on_a_source_that_is_left_out(self):
        rng = np.random.default_rng(1)
        losses, weights, _, _ = draw([0.3, 12.0], 300, rng)
        with pytest.warns(OverlapWarning):
            assert estimate(losses, weights, "lambda", lam=[0, 1 / 300]).fallback


class TestNoErrors:
    """A divergence of 0 that comes from a model without errors, not from missing overlap."""

    def test_it_does_not_take_all_the_mass(self):
        rng = np.random.default_rng(0)
        losses = [np.zeros(200), (rng.random(200) < 0.1).astype(float)]
        weights = [np.ones(200), np.ones(200)]
        assert estimate(losses, weights, guard=False).value == 0
        guarded = estimate(losses, weights)
        assert guarded.value == pytest.approx(np.concatenate(losses).mean())

    def test_no_errors_anywhere(self):
        risk = estimate([np.zeros(20), np.zeros(30)], [np.ones(20), np.ones(30)])
        assert risk.value == 0
        assert risk.interval() == (0, 0)

    def test_few_labelled_target_rows_are_heard(self):
        """Weights 1 on 4 rows: not silenced for being few."""
        rng = np.random.default_rng(0)
        risk = estimate(
            [rng.exponential(size=300), rng.exponential(size=4)],
            [rng.exponential(size=300), np.ones(4)],
        )
        assert risk.left_out == ("", "")


class TestSmallSources:
    """Exponential losses with weights 1, so that the truth is 1: trap 2 at its worst."""

    @pytest.mark.parametrize(("k", "n"), [(5, 40), (30, 40)])
    def test_coverage_of_the_default(self, k, n):
        rng = np.random.default_rng(8)
        found = {"default": [], "published": []}
        for _ in range(300):
            losses = list(rng.exponential(size=(k, n)))
            weights = [np.ones(n)] * k
            for name, guard in (("default", True), ("published", False)):
                risk = estimate(losses, weights, guard=guard)
                low, high = risk.interval(0.9)
                found[name].append((risk.value - 1, low <= 1 <= high))
        default, published = (np.mean(found[name], axis=0) for name in ("default", "published"))
        assert abs(default[0]) < 0.75 * abs(published[0])
        assert default[1] > published[1]

    def test_a_handful_of_rows_does_not_take_over(self):
        """Two sources of 300 rows and five of 3: the latter may have at most 10 % on average."""
        rng = np.random.default_rng(8)
        shares, errors = [], []
        for _ in range(300):
            losses = [rng.exponential(size=n) for n in (300, 300, 3, 3, 3, 3, 3)]
            risk = estimate(losses, [np.ones(len(loss)) for loss in losses])
            shares.append((risk.lam * risk.n)[2:].sum())
            errors.append(risk.value - 1)
        assert np.mean(shares) < 0.1
        assert np.sqrt(np.mean(np.square(errors))) < 0.06


class TestMore:
    def test_variance_reduced_is_below_any_lambda(self):
        rng = np.random.default_rng(0)
        for _ in range(100):
            n = rng.integers(2, 40, 4)
            losses = [rng.exponential(size=m) for m in n]
            weights = [rng.exponential(size=m) * rng.uniform(0.2, 3) for m in n]
            lam = rng.dirichlet(np.ones(4)) / n
            best = estimate(losses, weights, guard=False).variance
            other = estimate(losses, weights, "lambda", lam=lam, guard=False).variance
            assert best <= other * (1 + 1e-9)

    def test_lambda_is_renormalised_when_a_source_is_left_out(self):
        losses = [np.full(50, 2.0), np.full(50, 2.0)]
        weights = [np.ones(50), np.full(50, 1e-9)]
        risk = estimate(losses, weights, "lambda", lam=[0.01, 0.01])
        assert risk.value == pytest.approx(2.0)
        assert risk.lam @ risk.n == pytest.approx(1)

    def test_coverage(self):
        losses, weights = [np.ones(50), np.ones(50)], [np.full(50, 0.8), np.full(50, 0.7)]
        risk = estimate(losses, weights, "unbiased")
        assert risk.coverage == pytest.approx(0.75)
        assert "about 75 % of the target covered" in repr(risk)

    def test_pickled_is_still_immutable(self):
        risk = pickle.loads(pickle.dumps(estimate([np.arange(5.0)], method="naive")))
        with pytest.raises(ValueError, match="read-only"):
            risk.influence[0] = 1.0

    def test_names_differ(self):
        with pytest.raises(ProblemError, match="must differ"):
            estimate([np.ones(3)] * 2, method="naive", names=["B", "B"])

    @pytest.mark.parametrize("sizes", [[100] * 300, [20] * 99 + [20_000]])
    def test_condensed_variances_are_not_biased(self, sizes):
        """Many small sources, or one that is much larger: mean ratio 1 to its standard error."""
        rng = np.random.default_rng(1)
        ratios = []
        for _ in range(40):
            a, b = (estimate([rng.normal(size=n) for n in sizes], method="naive") for _ in "ab")
            full, short = b.minus(a).variance, b.condensed().minus(a.condensed()).variance
            ratios.append(short / full)
        error = np.std(ratios, ddof=1) / np.sqrt(len(ratios))
        assert abs(np.mean(ratios) - 1) < max(4 * error, 0.01)

    def test_condensed_and_stored(self):
        """2000 blocks keep value and variance, and paired differences to 10 %."""
        rng = np.random.default_rng(0)
        losses = [rng.exponential(size=4000) for _ in range(5)]
        other = [loss + rng.normal(0, 0.1, 4000) for loss in losses]
        a, b = (estimate(x, method="naive") for x in (losses, other))
        short_a, short_b = a.condensed(), b.condensed()
        assert len(short_a.influence) <= 2000
        assert short_a.value == a.value
        assert short_a.variance == a.variance
        assert short_b.minus(short_a).stderr == pytest.approx(b.minus(a).stderr, rel=0.1)
        stored = json.loads(json.dumps(short_a.to_record()))
        back = RiskEstimate.from_record(stored)
        assert back.interval() == a.interval()
        assert short_b.minus(back).stderr == pytest.approx(short_b.minus(short_a).stderr, rel=1e-5)

    @pytest.mark.parametrize("size", [1e-58, 1.0, 1e58])
    def test_stored_whatever_the_size_of_the_losses(self, size):
        rng = np.random.default_rng(0)
        a, b = (estimate(rng.exponential(size, (3, 50)), method="naive") for _ in "ab")
        back = RiskEstimate.from_record(json.loads(json.dumps(a.to_record())))
        assert b.minus(back).stderr / size == pytest.approx(b.minus(a).stderr / size, rel=1e-5)

    def test_losses_too_large_to_square(self):
        with pytest.raises(ProblemError, match=r"source 'C' has losses of up to 1e\+200"):
            estimate([[1.0, 2.0], [1e200, 3.0]], names=["B", "C"], method="naive")


class TestDifference:
    def test_paired(self):
        """Over 400 replicates the difference of two models is within 2 se in 93 to 97 %."""
        rng = np.random.default_rng(5)
        covered, ratio = [], []
        for _ in range(400):
            losses, weights, X, _ = draw([0.3, -0.5], 150, rng)
            other = [loss + 0.1 * (x[:, 0] + 1) for loss, x in zip(losses, X, strict=True)]
            a = estimate(losses, weights, "unbiased", guard=False)
            b = estimate(other, weights, "unbiased", guard=False)
            d = b.minus(a)
            low, high = d.interval(0.95)
            covered.append(low <= 0.1 <= high)  # E_T[x] = 0
            ratio.append(d.stderr / a.stderr)
        assert 0.91 < np.mean(covered) < 0.98
        assert np.mean(ratio) < 0.5

    def test_only_on_the_same_rows(self):
        a = estimate([np.arange(4.0)], method="naive")
        with pytest.raises(ProblemError, match="same rows"):
            a.minus(estimate([np.arange(5.0)], method="naive"))


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    k=st.integers(1, 5),
    method=st.sampled_from(["naive", "unbiased", "variance_reduced"]),
    source_of=st.sampled_from(["plug_in", "cross_fitted"]),
    guard=st.booleans(),
)
def test_invariances(seed, k, method, source_of, guard):
    rng = np.random.default_rng(seed)
    losses = [rng.exponential(size=rng.integers(5, 40)) for _ in range(k)]
    weights = [rng.exponential(size=len(loss)) for loss in losses]
    options = {"method": method, "guard": guard, "divergence": source_of}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlapWarning)
        risk = estimate(losses, weights, **options)
        order = rng.permutation(k)
        turned = estimate([losses[j] for j in order], [weights[j] for j in order], **options)
        assert turned.value == pytest.approx(risk.value)
        assert turned.variance == pytest.approx(risk.variance)
        scaled = estimate([7 * loss for loss in losses], weights, **options)
        assert scaled.value == pytest.approx(7 * risk.value)
        assert scaled.stderr == pytest.approx(7 * risk.stderr)
        if source_of != "cross_fitted" and not guard:
            twice = estimate(
                [np.repeat(loss, 2) for loss in losses],
                [np.repeat(w, 2) for w in weights],
                **options,
            )
            assert twice.value == pytest.approx(risk.value)
            lighter = estimate(losses, [w / 2 for w in weights], **options)
            if method != "naive":
                assert lighter.value == pytest.approx(risk.value / 2)
                np.testing.assert_allclose(lighter.lam, risk.lam)
    assert risk.lam @ risk.n == pytest.approx(1)
    assert (risk.lam >= 0).all()
    assert min(x.min() for x in losses) >= 0
    assert risk.value >= 0


ONE = [np.ones(3), np.ones(3)]


@pytest.mark.parametrize(
    ("losses", "weights", "options", "message"),
    [
        ([], [], {}, "no losses"),
        (ONE, None, {}, "needs weights"),
        (ONE, ONE[:1], {}, "losses of 2 sources but weights of 1"),
        (ONE, [np.ones(3), np.ones(2)], {"names": ["B", "C"]}, "'C' has 3 losses but 2 weights"),
        (ONE, [np.ones(3), [1, -1, 1]], {"names": ["B", "C"]}, "'C' has negative weights"),
        (ONE, [np.ones(3), [1, np.nan, 1]], {}, "'2': 1 weight.s. are not finite"),
        (ONE, [np.ones(3), [1, np.inf, 1]], {}, "not finite"),
        ([np.ones(3), [1, np.nan, 1]], ONE, {}, "'2': 1 loss.s. are not finite"),
        ([np.ones(3), []], ONE, {}, "'2' has no rows"),
        ([np.ones((3, 1)), np.ones(3)], ONE, {}, r"'1': one loss per row.*\(3, 1\)"),
        ([["a", "b", "c"], np.ones(3)], ONE, {}, "not numbers"),
        (ONE, [np.zeros(3), np.zeros(3)], {"guard": False}, "all weights of all sources are 0"),
        (ONE, ONE, {"method": "best"}, "no risk estimator 'best'"),
        (ONE, ONE, {"method": "lambda"}, "needs lam="),
        (ONE, ONE, {"method": "lambda", "lam": [1, 1]}, "sum_j lam_j n_j = 1"),
        (ONE, ONE, {"method": "lambda", "lam": [-1, 2]}, "numbers >= 0"),
        (ONE, ONE, {"names": ["B"]}, "1 names for 2 sources"),
        (ONE, ONE, {"divergence": "guess"}, "divergence must be"),
        (
            [np.ones(3), np.ones(1)],
            [np.ones(3), np.ones(1)],
            {"divergence": "cross_fitted", "guard": False},
            "'2' has 1 row",
        ),
    ],
)
def test_bad_input_gets_a_clear_error(losses, weights, options, message):
    with pytest.raises(ProblemError, match=message):
        estimate(losses, weights, **options)


@pytest.mark.parametrize("level", [0.0, 1.0, 95])
def test_level_of_an_interval(level):
    with pytest.raises(ProblemError, match="level"):
        estimate(ONE, method="naive").interval(level)


def test_fast_enough_for_every_trial():
    """30 sources of 300 rows: at most ten times the CPU time of the moments it is made of."""
    rng = np.random.default_rng(0)
    losses = [rng.exponential(size=300) for _ in range(30)]
    weights = [rng.exponential(size=300) for _ in range(30)]

    def moments():
        return [((w * x).mean(), (w * x).var()) for x, w in zip(losses, weights, strict=True)]

    def cpu(task):
        start = time.thread_time()
        task()
        return time.thread_time() - start

    whole, part = (
        min(cpu(task) for _ in range(50)) for task in (lambda: estimate(losses, weights), moments)
    )
    assert whole < 10 * part
