"""Several targets of one search: the result of each is that of a search for it alone."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge

from shiftune import ShiftProblem, ShiftSearch
from shiftune.errors import DataError, DataWarning, SearchWarning, SettingsError
from shiftune.search._targets import label_plan, shares
from shiftune.search._updating import label_worth

SPACE = {"alpha": (1e-3, 10.0, "log")}
TARGETS = ["A", "F"]
N = 60


def table(seed: int = 0, classes: bool = False) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    sites = list("ABCDEFG")
    found = pd.DataFrame({"shop": np.repeat(sites, N), "area": rng.normal(size=N * len(sites))})
    found["area"] += found["shop"].map(dict(zip(sites, rng.normal(size=7), strict=True)))
    found["kind"] = rng.choice(["u", "v"], len(found))
    found["customer"] = np.arange(len(found)) // 2
    found["worth"] = rng.choice([1.0, 3.0], len(found))
    level = found["shop"].map(dict(zip(sites, rng.normal(0, 0.5, 7), strict=True)))
    found["sales"] = found["area"] + level + rng.normal(size=len(found))
    if classes:
        found["sales"] = np.where(found["sales"] > 0, "much", "little")
    return found


def problem_of(df: pd.DataFrame, target: object, **options: object) -> ShiftProblem:
    hidden = df.assign(sales=df["sales"].where(~df["shop"].isin(TARGETS)))
    unused = {"customer", "worth"} - {options.get("subject"), options.get("sample_weight")}
    roles = {"site": "shop", "label": "sales", "target": target, "drop": list(unused)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ShiftProblem.from_frame(hidden, **(roles | options))


def searched(problem: ShiftProblem, **options: object) -> ShiftSearch:
    settings = {"estimator": Ridge(), "space": SPACE, "n_trials": 4, "progress": False} | options
    if problem.task == "classification":
        settings |= {"estimator": LogisticRegression(), "space": {"C": (0.01, 10.0, "log")}}
    X = problem.target.X
    if isinstance(X, pd.DataFrame) and "kind" in X:
        settings |= {"estimator": "linear", "space": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ShiftSearch(**settings).fit(problem)


@pytest.fixture(scope="module")
def df() -> pd.DataFrame:
    return table()


@pytest.fixture(scope="module")
def search(df: pd.DataFrame) -> ShiftSearch:
    return searched(problem_of(df, TARGETS))


def alone(df: pd.DataFrame, site: str, **options: object) -> ShiftSearch:
    others = df[~df["shop"].isin(set(TARGETS) - {site})]
    return searched(problem_of(others, site, **options))


@pytest.mark.parametrize(
    ("classes", "options"),
    [
        (False, {}),
        (True, {}),
        (False, {"subject": "customer"}),
        (False, {"sample_weight": "worth"}),
        (True, {"subject": "customer", "sample_weight": "worth"}),
    ],
)
@pytest.mark.parametrize("site", TARGETS)
def test_each_result_is_that_of_a_search_of_its_own(classes, options, site):
    df = table(classes=classes)
    several = searched(problem_of(df, TARGETS, **options)).at(site)
    own = alone(df, site, **options)
    assert several.problem_.target.name == site
    assert several.best_params_ == own.best_params_
    assert several.members_["weight"].to_dict() == own.members_["weight"].to_dict()
    np.testing.assert_allclose(several.risk_.value, own.risk_.value, rtol=1e-6)
    np.testing.assert_allclose(several.risk_.interval(), own.risk_.interval(), rtol=1e-6)
    np.testing.assert_allclose(several.gain_.value, own.gain_.value, rtol=1e-6)
    np.testing.assert_allclose(several.members_["risk"], own.members_["risk"], rtol=1e-6)
    np.testing.assert_allclose(several.metrics_["estimate"], own.metrics_["estimate"], rtol=1e-6)
    np.testing.assert_allclose(several.label_worth(10), own.label_worth(10), rtol=1e-5, atol=1e-12)
    assert several.verdict_ == own.verdict_
    new = df[df["shop"] == site]
    assert several.predict(new).tolist() == own.predict(new).tolist()


def test_no_model_is_fitted_for_a_target(df, monkeypatch):
    search = searched(problem_of(df, TARGETS))
    model = search.predictor_

    def fit(*_: object, **__: object) -> None:
        raise AssertionError("a model was fitted")

    monkeypatch.setattr("shiftune.evaluate._fits.fit", fit)
    monkeypatch.setattr("shiftune.search._result.fit", fit)
    for site in TARGETS:
        found = search.at(site)
        assert found.predictor_ is model
        assert found.risk_.value > 0
        assert found.verdict_.trust


def test_what_is_shared_is_computed_once_and_no_trial_is_estimated_for_the_table(df, monkeypatch):
    search = searched(problem_of(df, ["A", "B", "F"]))
    result, calls = search.result_, []
    for name in ("losses", "source_metrics", "medians"):
        monkeypatch.setattr(type(result), name, _counted(name, calls, type(result)))
    monkeypatch.setattr("shiftune.search._result.risks_at", lambda _: calls.append("risks_at"))
    assert len(search.targets_) == 3
    assert {"losses", "source_metrics"} <= set(calls) - {"risks_at"}
    assert len(calls) == len(set(calls))
    assert "risks_at" not in calls


def _counted(name, calls, kind):
    shared, compute = vars(kind)[name], vars(kind)[name].func
    counting = type(shared)(lambda result: (calls.append(name), compute(result))[1])
    counting.__set_name__(kind, name)
    return counting


def test_another_target_has_the_trials_of_the_search(df, tmp_path):
    problem = problem_of(df, TARGETS)
    first = searched(problem, storage=tmp_path / "study.journal")
    found = first.at("F")
    ShiftSearch(**first.get_params(deep=False) | {"n_trials": 6}).fit(problem)
    assert len(found.trials_) == len(first.trials_) == 4
    assert found.best_index_ == first.best_index_
    own = alone(df, "F").trials_
    np.testing.assert_allclose(found.trials_["risk"], own["risk"], rtol=1e-6)
    np.testing.assert_allclose(found.trials_["criterion"], own["criterion"], rtol=1e-6)


def test_an_update_is_that_of_a_search_of_its_own(df, search):
    own = alone(df, "F")
    rows = df[df["shop"] == "F"][:20]
    several = search.at("F").update(rows, rows["sales"])
    single = own.update(rows, rows["sales"])
    np.testing.assert_allclose(several.risk_.value, single.risk_.value, rtol=1e-6)
    np.testing.assert_allclose(several.predict(rows), single.predict(rows), rtol=1e-6)


def test_rows_of_a_site_that_the_search_did_not_know(df, search):
    rows = table(seed=1)[:30].drop(columns=["sales", "shop"]).assign(area=lambda d: d["area"] + 2)
    found = search.at(rows, name="new shop")
    assert found.problem_.target.name == "new shop"
    sources = df[~df["shop"].isin(TARGETS)]
    roles = {"site": "shop", "label": "sales", "drop": ["customer", "worth"]}
    direct = searched(ShiftProblem.from_frame(sources, target=rows, **roles))
    np.testing.assert_allclose(found.risk_.value, direct.risk_.value, rtol=1e-6)
    assert found.predict(rows).shape == (30,)


def test_a_target_with_other_columns_is_refused(df, search):
    with pytest.raises(DataError, match=r"area"):
        search.at(df[:9].drop(columns="area"))


@pytest.mark.parametrize("name", ["a", "Z", "FF"])
def test_an_unknown_name_is_refused(search, name):
    with pytest.raises(DataError, match=rf"'{name}'.*(did you mean|choose from|A)"):
        search.at(name)


def test_a_source_is_treated_as_if_it_were_new(df, search):
    found = search.at("B")
    assert found.problem_.names == ["C", "D", "E", "G"]
    assert found.risk_.names == ("C", "D", "E", "G")
    # Its labels do not count in the predictor. In the estimate they count by the models of other
    # sites, which were trained with them.
    other = df.assign(sales=df["sales"].where(df["shop"] != "B", df["sales"] + 100))
    known = searched(problem_of(other, TARGETS))
    without = searched(problem_of(df[df["shop"] != "B"], TARGETS))
    assert found.predictor_ is not search.predictor_
    new = df[df["shop"] == "B"]
    assert abs(found.predict(new).mean() - without.predict(new).mean()) < 1
    assert abs(known.at("B").predict(new).mean() - without.predict(new).mean()) < 1


def test_from_another_target_one_comes_to_all(search):
    assert search.at("A").at("F").risk_.value == search.at("F").risk_.value
    assert search.at("B").at("F").risk_.value == search.at("F").risk_.value


def test_the_table_has_the_targets_and_the_sources_with_their_truth(df, search):
    found = search.target_table(sources=True)
    assert set(found.index) == set("ABCDEFG")
    assert found.loc["F", "risk"] == search.at("F").risk_.value
    assert (found.loc["F", "low"], found.loc["F", "high"]) == search.at("F").risk_.interval()
    assert found.loc["F", "verdict"] == search.at("F").verdict_.trust
    assert found["rows"].eq(N).all()
    expected = search.at("F").label_worth(30)["gain"].iloc[-1]
    assert found.loc["F", "gain_30"] == pytest.approx(expected)
    predictions = search.result_.choice.predictions
    data = search.result_.context.data
    for site in "BCDEG":
        y, p = data.y_validation[data.names.index(site)], predictions[data.validation_rows([site])]
        assert found.loc[site, "truth"] == pytest.approx(np.mean((y - p) ** 2))
        assert found.loc[site, "low"] < found.loc[site, "truth"] < found.loc[site, "high"]
    assert found["truth"].isna().sum() == 2
    assert set(search.targets_.index) == set(TARGETS)


def test_the_most_urgent_target_is_first(df):
    far = df.assign(area=df["area"].where(df["shop"] != "F", df["area"] + 30))
    found = searched(problem_of(far, TARGETS)).targets_
    assert list(found.index) == ["F", "A"]
    assert found.loc["F", "verdict"] == "do not use"
    assert found.loc["F", "reason"]
    assert found.loc["F", "special"] == "area higher"


def test_new_categories_are_special(df):
    odd = df.assign(kind=df["kind"].where(df["shop"] != "A", "w"))
    found = searched(problem_of(odd, TARGETS)).targets_
    assert "kind: 100 % new" in found.loc["A", "special"]
    assert found.loc["A", "outside"] == 1


def test_the_table_has_the_share_of_rows_beyond_the_sources(df):
    far = df.assign(area=df["area"].where(df["shop"] != "F", df["area"] + 9))
    found = searched(problem_of(far, TARGETS)).targets_
    low, high = far["area"][~far["shop"].isin(TARGETS)].quantile([0.01, 0.99])
    for site in TARGETS:
        expected = 1 - far["area"][far["shop"] == site].between(low, high).mean()
        assert found.loc[site, "outside"] == pytest.approx(expected)
    assert found.loc["F", "outside"] > 0.5


@pytest.mark.parametrize(
    "options", [{"risk": "variance_reduced"}, {"risk": "naive"}, {"training_weights": "importance"}]
)
def test_estimators_for_one_target_have_a_search_each(df, options):
    problem = problem_of(df.drop(columns="kind"), TARGETS)
    settings = {"estimator": Ridge(), "space": SPACE, "n_trials": 3} | options
    with pytest.warns(SearchWarning, match=r"for one target, so .* each of the 2 has a search"):
        search = ShiftSearch(**settings).fit(problem)
    own = searched(problem.at("F"), n_trials=3, **options)
    assert search.at("F").risk_.value == own.risk_.value
    assert search.at("F").best_params_ == own.best_params_
    assert set(search.targets_.index) == set(TARGETS)
    assert search.targets_.loc["F", "risk"] == own.risk_.value
    for name in ("risk_", "trials_", "predictor_"):
        with pytest.raises(NotFittedError, match=r"at\(site\), with 'A' and 'F'"):
            getattr(search, name)
    with pytest.raises(DataError, match="did you mean 'F'"):
        search.at("f")
    assert search.fit(problem.at("A")).problem_.target.name == "A"
    with pytest.raises(SettingsError, match=r"for one target.*problem\.at\(site\)"):
        search.at("B")


def test_searches_of_one_target_share_no_storage(df, tmp_path):
    problem = problem_of(df, TARGETS)
    with pytest.raises(SettingsError, match="a search per target"):
        searched(problem, risk="naive", storage=tmp_path / "study.journal")
    assert not list(tmp_path.iterdir())


def test_two_sources_are_too_few_to_spare_one(df):
    search = searched(problem_of(df[df["shop"].isin(["A", "B", "C"])], "A"))
    with pytest.raises(DataError, match="without 'B' there is one source"):
        search.at("B")


@pytest.mark.parametrize("site", ["F", "B"])
def test_a_target_has_all_that_a_result_has(search, site, tmp_path):
    found = search.at(site)
    loaded = pickle.loads(pickle.dumps(found))
    assert loaded.risk_.value == found.risk_.value
    assert loaded.at("A").risk_.value == search.at("A").risk_.value
    assert f"sales at {site}" in found.report(tmp_path / "page.html").read_text()
    assert f"sales at {site}" in found.model_card(tmp_path / "card.md").read_text()
    document = found.summary()
    assert (document["target"], document["target_rows"]) == (site, N)
    assert set(found.importance().index) == {"area", "kind"}
    assert len(found.checks()) > 3
    assert found.targets_.index.to_list() == [site]
    rows = found.problem_.target.X[:9]
    assert found.predict_interval(rows, 0.75).shape == (9, 2)
    assert clone(found).get_params()["n_trials"] == 4
    assert not hasattr(clone(found), "result_")


def test_labels_of_targets_are_set_aside(df):
    roles = {"site": "shop", "label": "sales", "target": TARGETS, "drop": ["customer", "worth"]}
    with pytest.warns(DataWarning, match=r"120 labels .* update each target by its own"):
        ShiftProblem.from_frame(df, **roles)


def test_a_search_that_is_opened_again_has_the_targets(df, search, tmp_path):
    problem = problem_of(df, TARGETS)
    first = searched(problem, storage=tmp_path / "study.journal")
    again = ShiftSearch(**first.get_params(deep=False)).reopen(problem)
    pd.testing.assert_frame_equal(again.targets_, first.targets_)


def test_labels_stay_where_they_are(df, search):
    found = search.at("A")
    assert search.problem_.target.name == "A and F"
    assert found.at("A").risk_.value == found.risk_.value


# ---------------------------------------------------------------- label plan


def test_a_plan_spends_the_budget_where_it_helps_most(search):
    plan = search.label_plan(50)
    assert plan["labels"].sum() == 50
    assert plan["gain"].sum() >= search.at("A").label_worth(25)["gain"].iloc[-1]
    assert (plan["gain_low"] <= plan["gain"]).all()
    assert (plan["gain"] <= plan["gain_high"]).all()


def test_a_plan_labels_no_more_rows_than_there_are(search):
    assert search.label_plan(10_000)["labels"].le(N).all()


@pytest.mark.parametrize("budget", [0, -1, 2.5, "many", True])
def test_a_budget_is_a_number_of_labels(search, budget):
    with pytest.raises(SettingsError, match="budget"):
        search.label_plan(budget)


def test_shares_are_the_best_of_all():
    rng = np.random.default_rng(0)
    counts = [0, 1, 2, 3, 4, 5]
    for _ in range(20):
        steps = -np.sort(-rng.normal(size=(2, 5)), axis=1)  # concave
        curves = {
            s: dict(zip(counts, [0, *np.cumsum(own)], strict=True))
            for s, own in zip("AB", steps, strict=True)
        }
        found = shares(curves, 6)
        best = max(curves["A"][a] + curves["B"][b] for a in counts for b in counts if a + b <= 6)
        assert curves["A"][found["A"]] + curves["B"][found["B"]] == pytest.approx(best)


def test_columns_of_arrays_are_special_by_their_number():
    X = np.random.default_rng(0).normal(size=(4, 40, 3))
    X[0, :, 2] += 3
    problem = ShiftProblem.from_sites([(rows, rows[:, 0]) for rows in X[1:]], X[0])
    assert searched(problem).targets_["special"].to_list() == ["2 higher"]


def test_looking_at_a_search_computes_no_attribute(df):
    search = searched(problem_of(df, TARGETS))
    computed = set(vars(search.result_))
    assert "targets_" in dir(search)
    assert set(vars(search.result_)) == computed
    assert search._repr_html_().startswith("<div>")
    assert "targets" not in vars(search.result_)


def test_a_plan_goes_on_after_earlier_labels(search):
    first = label_plan(search.result_, 20)
    more = label_plan(search.result_, 20, first["labels"].to_dict())
    assert more["labels"].sum() == 20
    assert more["risk"].sum() < first["risk"].sum()
    assert more.notna().all(axis=None)
    assert label_plan(search.result_, 20, {"A": N})["labels"].to_dict() == {"F": 20, "A": 0}


def test_further_labels_gain_the_difference_of_the_risks(search):
    result = search.at("A").result_
    every, further = label_worth(result, [5, 15]), label_worth(result, 10, labelled=5)
    gain = every.loc[15, "gain"] - every.loc[5, "gain"]
    assert further.loc[10, "gain"] == pytest.approx(gain, rel=1e-9)
    assert further.loc[10, "risk"] == every.loc[15, "risk"]
    assert further.loc[0, ["gain", "gain_low", "gain_high"]].to_list() == [0, 0, 0]
    width = further["gain_high"] - further["gain_low"]
    assert 0 < width.loc[10] < (every["gain_high"] - every["gain_low"]).loc[15]


def test_rows_of_a_weighted_search_are_as_the_site_with_them(df):
    """Rows count once each, and the weights of the sources count as before."""
    weighted = df.assign(worth=df["worth"].where(~df["shop"].isin(TARGETS)))
    search = searched(problem_of(weighted, TARGETS, sample_weight="worth"))
    named, rows = search.at("A"), search.at(df[df["shop"] == "A"])
    assert rows.risk_.value == pytest.approx(named.risk_.value, rel=1e-9)
    assert rows.risk_.interval() == pytest.approx(named.risk_.interval(), rel=1e-9)


def test_a_pickled_result_of_a_target_has_its_trials(df, caplog):
    result = searched(problem_of(df, TARGETS)).at("A").result_
    loaded = pickle.loads(pickle.dumps(result))
    assert "computing again" not in caplog.text
    pd.testing.assert_frame_equal(loaded.trials, result.trials)
    assert "computing again" not in caplog.text
