"""uLSIF against closed-form Gaussian ratios and against densratio."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from densratio import densratio
from scipy.stats import spearmanr

from shiftune.datasets import GaussianSites
from shiftune.errors import ProblemError
from shiftune.ratio import ULSIF, _density
from shiftune.ratio._density import KernelSums, _solve

SIGMAS = 10.0 ** np.linspace(-1, 1, 5)
LAMBDAS = 10.0 ** np.linspace(-3, 1, 5)


def draw(sites, n, seed=0):
    rng = np.random.default_rng(seed)
    return [sites.draw(j, n, rng) for j in range(sites.k + 1)]


class TestAgainstTheTruth:
    @pytest.mark.parametrize(
        ("means", "sds", "error", "agreement"),
        [
            ([[0.0], [0.7], [-0.5]], 1.0, 0.25, 0.97),
            ([[0.0], [0.0], [0.3]], [[1.0], [1.6], [1.4]], 0.10, 0.93),
            ([[0, 0], [0.5, 0.0], [-0.3, 0.4]], 1.0, 0.60, 0.85),
            # In 7 dimensions kernels cannot follow the ratio's tails, but keep to its order.
            ([np.zeros(7), np.full(7, 0.25), np.full(7, -0.2)], 1.0, 0.92, 0.50),
        ],
    )
    def test_gaussian_ratios(self, means, sds, error, agreement):
        sites = GaussianSites(means, sds)
        target, *sources = draw(sites, 2000)
        fresh = draw(sites, 4000, seed=1)[1:]
        for j, w in enumerate(ULSIF().fit(target, sources).weights(fresh)):
            truth = sites.ratio(j + 1)(fresh[j])
            assert np.mean((w - truth) ** 2) / np.var(truth) < error
            assert spearmanr(w, truth).statistic > agreement
            # The mean of 4000 weights of variance < 1.5 has a standard error below 0.02; 0.1 is
            # for the error of the fit itself.
            assert abs(w.mean() - 1) < 0.1

    def test_the_ratio_is_not_upside_down(self):
        sites = GaussianSites([[0.0], [1.0]])
        target, source = draw(sites, 1000)
        w_target_side, w_source_side = (
            ULSIF().fit(target, [source]).weights([np.array([[-0.5], [1.5]])])[0]
        )
        assert w_target_side > 1 > w_source_side


class TestAgainstDensratio:
    """The same grid on the same data: other centres and other folds, so agreement, not equality."""

    @pytest.mark.parametrize("d", [1, 3])
    def test_same_grid(self, d, monkeypatch):
        sites = GaussianSites([np.zeros(d), np.full(d, 0.5)])
        target, source = draw(sites, 800)
        fresh = sites.draw(1, 2000, np.random.default_rng(9))
        ours = ULSIF(bandwidths=SIGMAS, penalties=LAMBDAS, scale=False)
        (w,) = ours.fit(target, [source]).weights([fresh])
        # densratio draws its centres from NumPy's global stream.
        module = importlib.import_module("densratio.RuLSIF")
        monkeypatch.setattr(module, "choice", np.random.default_rng(0).choice)
        theirs = densratio(
            target, source, sigma_range=list(SIGMAS), lambda_range=list(LAMBDAS), verbose=False
        ).compute_density_ratio(fresh)
        assert spearmanr(w, theirs).statistic > 0.97
        for loss in (np.ones(len(fresh)), fresh[:, 0] ** 2, np.abs(fresh).sum(axis=1)):
            ours_mean, their_mean = np.mean(w * loss), np.mean(theirs * loss)
            assert abs(ours_mean - their_mean) < 0.06 * their_mean
        truth = sites.ratio(1)(fresh)
        assert np.mean((w - truth) ** 2) < 1.25 * np.mean((theirs - truth) ** 2)

    def test_one_pair_of_settings_is_the_same_solution(self):
        """All target rows as centres, one bandwidth, one penalty: nothing is left to chance."""
        target, source = draw(GaussianSites([[0.0, 0.0], [0.5, 0.2]]), 60)
        ours = ULSIF(bandwidths=[0.8], penalties=[0.1], n_centers=30, scale=False, guard=False)
        (w,) = ours.fit(target, [source]).weights([source])
        phi_t, phi_s = (
            np.exp(-((X[:, None] - ours.centers_) ** 2).sum(axis=2) / (2 * 0.8**2))
            for X in (target, source)
        )
        H = phi_s.T @ phi_s / len(source)
        a = np.linalg.solve(H + 0.1 * np.eye(30), phi_t.mean(axis=0))
        np.testing.assert_allclose(w, phi_s @ np.maximum(a, 0), rtol=1e-8)


class TestCrossValidation:
    def test_scores_from_moments_are_those_from_rows(self, monkeypatch):
        """J of the chosen pair, computed row by row on the same folds, is the lowest."""
        sites = GaussianSites([[0.0], [0.8]])
        target, source = draw(sites, 300)
        monkeypatch.setattr(_density, "CHUNK", 37)  # folds and chunks do not line up
        ratio = ULSIF(bandwidths=SIGMAS, penalties=LAMBDAS, scale=False, n_centers=40)
        ratio.fit(target, [source])
        order = np.random.default_rng(0).permutation(300)
        fold_t = np.full(300, -1)
        fold_t[order[40:]] = np.arange(260) % 5
        fold_s = np.empty(300, dtype=int)
        fold_s[np.random.default_rng(0).permutation(300)] = np.arange(300) % 5
        J = {}
        for sigma in SIGMAS:
            phi_t, phi_s = (
                np.exp(-((X - target[order[:40]].T) ** 2) / (2 * sigma**2))
                for X in (target, source)
            )
            for penalty in LAMBDAS:
                total = 0.0
                for f in range(5):
                    P, h = phi_s[fold_s != f], phi_t[fold_t != f].mean(axis=0)
                    a = np.linalg.solve(P.T @ P / len(P) + penalty * np.eye(40), h)
                    a = np.maximum(a, 0)
                    w_s, w_t = phi_s[fold_s == f] @ a, phi_t[fold_t == f] @ a
                    total += 0.5 * np.mean(w_s**2) - np.mean(w_t)
                J[sigma, penalty] = total
        best = min(J, key=J.get)
        assert ratio.bandwidth_ == pytest.approx([best[0]])
        assert ratio.penalty_ == pytest.approx([best[1]])

    def test_chunks_do_not_matter(self, monkeypatch):
        target, source = draw(GaussianSites([[0.0, 0.0], [0.5, 0.5]]), 500)
        (whole,) = ULSIF().fit(target, [source]).weights([source])
        monkeypatch.setattr(_density, "CHUNK", 13)
        (pieces,) = ULSIF().fit(target, [source]).weights([source])
        np.testing.assert_allclose(whole, pieces, rtol=1e-7)

    def test_solve_is_the_penalised_solution(self, rng):
        for b in (1, 2, 3, 30):
            A = rng.normal(size=(4, 50, b))
            H, h = A.transpose(0, 2, 1) @ A / 50, np.abs(rng.normal(size=(4, b)))
            penalties = np.array([1e-6, 0.1, 10.0])
            got = _solve(H, h, penalties)
            for s in range(4):
                for p, penalty in enumerate(penalties):
                    want = np.linalg.solve(H[s] + penalty * np.eye(b), h[s])
                    np.testing.assert_allclose(got[s, :, p], np.maximum(want, 0), atol=1e-8)

    def test_means_without_a_fold(self, rng):
        H, h, n = rng.random((3, 2, 4, 4)), rng.random((3, 2, 4)), np.array([5, 6, 7])
        got, _ = KernelSums(H, h, n).means(without=1)
        np.testing.assert_allclose(got, (H[0] + H[2]) / 12)


class TestNoOverlap:
    @pytest.mark.parametrize(
        ("distance", "d"), [(6.0, 1), (14.0, 1), (14.0, 7), (50.0, 1), (50.0, 7), (1e4, 7)]
    )
    def test_a_source_out_of_reach_weighs_nothing(self, distance, d):
        sites = GaussianSites([np.zeros(d), np.full(d, distance / np.sqrt(d)), np.full(d, 0.2)])
        target, far, near = draw(sites, 300)
        w_far, w_near = ULSIF().fit(target, [far, near]).weights([far, near])
        assert w_far.mean() < 0.01
        assert abs(w_near.mean() - 1) < 0.15  # the remote site does not spoil the others

    def test_without_the_guard_wide_kernels_reach_over(self):
        """What the guard is for: some remote source gets weights far from 0."""
        sites = GaussianSites([[0.0], [14.0], [9.0]])
        target, *far = draw(sites, 300)
        weights = ULSIF(guard=False).fit(target, far).weights(far)
        assert max(w.mean() for w in weights) > 0.1


def test_duplicated_source_rows_do_not_matter():
    """All means are the same, so for one pair of settings the solution is."""
    target, source = draw(GaussianSites([[0.0], [0.5]]), 150)
    ratio = ULSIF(bandwidths=[1.0], penalties=[0.1], guard=False)
    once = ratio.fit(target, [source]).weights([source])[0]
    twice = ratio.fit(target, [np.repeat(source, 2, axis=0)]).weights([source])[0]
    np.testing.assert_allclose(once, twice, rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bandwidths": [0.0, 1.0]}, "bandwidths must be numbers > 0"),
        ({"penalties": [-1.0]}, "penalties must be numbers > 0"),
        ({"bandwidths": []}, "bandwidths"),
    ],
)
def test_bad_settings(options, message):
    with pytest.raises(ProblemError, match=message):
        ULSIF(**options).fit(np.zeros((9, 1)), [np.ones((9, 1))])


def test_unscaled_features_cannot_be_missing(rng):
    X = rng.normal(size=(9, 2))
    X[3, 1] = np.nan
    with pytest.raises(ProblemError, match="column 1 has 1 missing"):
        ULSIF(scale=False).fit(X, [X])
