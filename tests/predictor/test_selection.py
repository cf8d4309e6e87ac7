"""Members and weights, chosen on predictions of trials."""

import numpy as np
import pytest
from tests.predictor.labelled import labelled

from shiftune.evaluate import loss_named
from shiftune.evaluate._fits import losses_of_rows
from shiftune.predictor._selection import CANDIDATES, MOST_MEMBERS, Candidates, Choice, choose
from shiftune.risk import estimate

SQUARED = loss_named("squared")


def losses(found, weights):
    """Losses of a weighted mean of the candidates on all rows."""
    mean = np.tensordot(weights, np.array(found.predictions), axes=1)
    return losses_of_rows(mean, found.y, found.loss, found.classes)


def nested_losses(found, **options):
    """Losses on sites that were held out of the choice."""
    nested = found.nested_predictions(**options)
    return losses_of_rows(nested, found.y, found.loss, found.classes)


def noisy_models(errors, *, sites=4, rows=500, seed=0):
    """Models that predict the label plus independent errors of given standard deviations."""
    rng = np.random.default_rng(seed)
    y = [rng.normal(size=rows) for _ in range(sites)]
    all_y = np.concatenate(y)
    return [all_y + rng.normal(0, sd, len(all_y)) for sd in errors], y


def candidates(predictions, y, loss=SQUARED, classes=None):
    rows = np.repeat([1 / len(y) / len(own) for own in y], [len(own) for own in y])
    return Candidates(dict(enumerate(predictions)), y, rows, loss, classes)


def weights_in_order(found, **options):
    """Weights in the order in which the predictions were given; candidates are sorted."""
    chosen = found.members(found.weights(**options))
    return np.array([chosen.get(i, 0.0) for i in range(len(found.numbers))])


def test_equal_independent_models_share_the_weight():
    predictions, y = noisy_models([1.0, 1.0, 1.0])
    found = candidates(predictions, y)
    weights = found.weights()
    # Var of a mean is lowest at 1/3 each; 15 rounds can reach it exactly. The sampled errors
    # correlate by about 1/sqrt(2000), so a weight may be one step of 1/15 off.
    np.testing.assert_allclose(weights, 1 / 3, atol=1.01 / 15)
    loss = losses(found, weights).mean()
    assert loss == pytest.approx(1 / 3, abs=4 * np.sqrt(2) / 3 / np.sqrt(2000))


def test_weights_follow_the_inverse_variances():
    predictions, y = noisy_models([1.0, 0.5])
    weights = weights_in_order(candidates(predictions, y), rounds=50)
    # The best weights are 1 / sd^2, hence 1 : 4.
    np.testing.assert_allclose(weights, [0.2, 0.8], atol=0.05)


def test_a_useless_model_gets_nothing():
    predictions, y = noisy_models([1.0, 1.0, 20.0])
    assert weights_in_order(candidates(predictions, y))[2] == 0


def test_one_round_chooses_the_best_single_model():
    predictions, y = noisy_models([0.9, 0.3, 0.5])
    assert weights_in_order(candidates(predictions, y), rounds=1).tolist() == [0, 1, 0]


def test_there_are_never_more_members_than_allowed():
    predictions, y = noisy_models([1.0] * 15)
    weights = candidates(predictions, y).weights(rounds=40)
    assert np.count_nonzero(weights) == MOST_MEMBERS
    assert weights.sum() == pytest.approx(1)


def test_every_family_has_candidates():
    """Many trials beside the best one are nearly one model, and leave no place for another."""
    rng = np.random.default_rng(0)
    y = [rng.normal(size=500) for _ in range(4)]
    labels = np.concatenate(y)
    one, other = (labels + rng.normal(0, sd, len(labels)) for sd in (1.0, 1.1))
    alike = [one + rng.normal(0, 0.01, len(labels)) for _ in range(20)]
    predictions, rows = dict(enumerate([*alike, other])), np.full(len(labels), 1 / len(labels))
    of_one = Candidates(predictions, y, rows, SQUARED, None)
    assert 20 not in of_one.numbers
    family = {number: "other" if number == 20 else "one" for number in predictions}
    of_both = Candidates(predictions, y, rows, SQUARED, None, family)
    # Of independent errors the weights are as 1 / sd^2, and the variance is that of the mean.
    assert of_both.members(of_both.weights())[20] == pytest.approx(1 / (1 + 1.21), abs=1.01 / 15)
    variances = [losses(found, found.weights()).mean() for found in (of_one, of_both)]
    np.testing.assert_allclose(variances, [1, 1 / (1 + 1 / 1.21)], rtol=0.1)


def test_sites_count_by_their_shares():
    y = [np.zeros(5), np.zeros(500)]
    first, second = (np.repeat(errors, [5, 500]) for errors in ([0.0, 1.0], [2.0, 0.0]))
    predictions = dict(enumerate([first, second]))
    for shares, best in (([0.5, 0.5], 0), ([0.1, 0.9], 1)):
        rows = np.repeat(np.array(shares) / [5, 500], [5, 500])
        found = Candidates(predictions, y, rows, SQUARED, None)
        assert weights_in_order(found, rounds=1)[best] == 1


def test_nested_losses_are_of_sites_that_were_held_out():
    # Each model is right at all sites but one; only that site's own rows show its failure.
    sites = 3
    y = [np.zeros(20)] * sites
    found = candidates(3.0 * np.repeat(np.eye(sites), 20, axis=1), y)
    assert losses(found, found.weights(rounds=1)).mean() == pytest.approx(3)
    # Without site j, model j looks perfect and is chosen; there it has a loss of 9.
    np.testing.assert_allclose(nested_losses(found, rounds=1), 9.0)


def test_nested_losses_show_the_winners_curse():
    # 20 models that are equally good: the best of them looks better than it is.
    chosen, nested = [], []
    for seed in range(40):
        predictions, y = noisy_models([1.0] * 20, sites=5, rows=10, seed=seed)
        found = candidates(predictions, y)
        chosen.append(losses(found, found.weights(rounds=1)).mean())
        nested.append(nested_losses(found, rounds=1).mean())
    # A model's mean loss has the standard error sqrt(2 / 50) = .2; that of 40 runs .2 / sqrt(40).
    error = 0.2 / np.sqrt(40)
    assert np.mean(nested) == pytest.approx(1, abs=3.5 * error)
    assert np.mean(chosen) < 1 - 5 * error


def test_a_single_site_is_split():
    predictions, y = noisy_models([1.0, 0.5], sites=1, rows=101)
    found = candidates(predictions, y)
    assert np.isfinite(nested_losses(found)).all()
    assert set(found.folds) == {0, 1}


def test_many_rows_are_thinned_evenly():
    predictions, y = noisy_models([1.0, 1.0], sites=4, rows=500)
    rows = np.full(2000, 1 / 2000)
    found = Candidates(dict(enumerate(predictions)), y, rows, SQUARED, None, most_rows=100)
    assert len(found._rows) == 100
    assert np.bincount(found.folds[found._rows]).tolist() == [25] * 4
    np.testing.assert_allclose(found.weights(), 0.5, atol=0.2)


def test_members_are_chosen_on_rows_of_every_class():
    """Every class of a site keeps its share in the criterion."""
    sizes, classes = (2000, 1000), np.array(["no", "yes"])
    y = [np.where(np.arange(n) % 500 == 3, "yes", "no") for n in sizes]
    labels, site = np.concatenate(y), np.repeat([0, 1], sizes)
    p = np.random.default_rng(2).uniform(size=(2, 3000))
    predictions = {number: np.column_stack([1 - own, own]) for number, own in enumerate(p)}
    shares = np.full(3000, 1 / 3000)
    found = Candidates(predictions, y, shares, loss_named("brier"), classes, most_rows=1000)
    for j in (0, 1):
        for label in classes:
            kept = (site[found._rows] == j) & (labels[found._rows] == label)
            alike = (site == j) & (labels == label)
            assert found._row_shares[kept].sum() == pytest.approx(alike.mean())


def test_probabilities_and_votes():
    y = [np.array(["a", "b", "a", "b"])] * 2
    classes = np.array(["a", "b"])
    sure = np.tile([[0.9, 0.1], [0.1, 0.9]], (4, 1))
    wrong = np.tile([[0.1, 0.9], [0.9, 0.1]], (4, 1))
    for loss, given in (("log_loss", [wrong, sure]), ("zero_one", np.round([wrong, sure]))):
        found = candidates(given, y, loss_named(loss), classes)
        assert weights_in_order(found, rounds=1).tolist() == [0, 1]


def judged(losses):
    return estimate(losses, method="naive")


def chosen(predictions, y):
    numbers = [3 * i + 1 for i in range(len(predictions))]
    data = labelled(y)
    risks = {
        i: judged(data.losses(each, SQUARED)) for i, each in zip(numbers, predictions, strict=True)
    }
    by_number = dict(zip(numbers, predictions, strict=True))
    best = min(risks, key=lambda number: risks[number].value)
    alone = Choice({best: 1.0}, risks[best])
    return choose(alone, by_number, data, SQUARED, judged), risks


def test_an_ensemble_is_chosen_with_its_gain():
    predictions, y = noisy_models([1.0, 1.0, 8.0])
    choice, _ = chosen(predictions, y)
    assert set(choice.weights) == {1, 4}
    assert sum(choice.weights.values()) == pytest.approx(1)
    assert choice.risk.value == pytest.approx(0.5, abs=0.1)
    low, high = choice.gain.interval()
    assert low > 0
    assert low < 0.5 < high


def test_one_model_is_handed_over_where_nothing_is_gained():
    predictions, y = noisy_models([0.1])
    same = [predictions[0]] * 3
    choice, risks = chosen(same, y)
    assert choice.weights == {1: 1.0}
    assert choice.gain.value == 0
    assert choice.risk.value == pytest.approx(risks[1].value)


def test_the_rows_of_a_single_site_that_are_left_are_in_both_folds():
    predictions, y = noisy_models([1.0, 0.5], sites=1, rows=400)
    rows = np.full(400, 1 / 400)
    found = Candidates(dict(enumerate(predictions)), y, rows, SQUARED, None, most_rows=100)
    assert np.bincount(found.folds[found._rows]).tolist() == [50, 50]


def test_a_site_that_is_held_out_does_not_choose_candidates():
    # Thirteen models are good at the first three sites, twelve others at the last one.
    rng = np.random.default_rng(0)
    y = [rng.normal(size=20) for _ in range(4)]
    site = np.repeat(np.arange(4), 20)
    all_y = np.concatenate(y)
    there = [np.where(site == 3, 1.0, 0.1 + 0.001 * i) for i in range(CANDIDATES + 1)]
    here = [np.where(site == 3, 0.0, 0.5)] * CANDIDATES
    found = candidates([all_y + error for error in there + here], y)
    assert set(found.members(found.weights(rounds=1))) <= {*range(CANDIDATES + 1, 25)}
    without_the_last = found.members(found.weights(without=3, rounds=1))
    assert without_the_last == {0: 1.0}


def test_the_risk_of_a_single_trial_is_its_own():
    # The criterion that compares ensembles may prefer another trial than the estimate does.
    predictions, y = noisy_models([0.1, 8.0])
    own = judged([np.full(len(each), 64.0) for each in y])
    data = labelled(y)
    by_number = dict(enumerate(predictions))
    choice = choose(Choice({1: 1.0}, own), by_number, data, SQUARED, judged)
    assert choice.weights == {1: 1.0}
    assert choice.risk is own


def test_a_single_site_that_counts_is_split():
    # Without it nothing would be left to choose by: density ratios may leave out all but one.
    predictions, y = noisy_models([1.0, 1.0], sites=3)
    rows = np.repeat([0.0, 1 / 500, 0.0], 500)
    found = Candidates(dict(enumerate(predictions)), y, rows, SQUARED, None)
    for fold in (0, 1):
        np.testing.assert_allclose(found.weights(without=fold), 0.5, atol=0.2)
