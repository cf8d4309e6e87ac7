"""Predictions of trials: kept beside the journal, found by a resumed run, or made again."""

from __future__ import annotations

import pickle
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState, create_trial
from reproduction.toy import toy_problem
from sklearn.linear_model import Ridge

from shiftune.search import ShiftSearch, _storage
from shiftune.search._loop import trial_predictions
from shiftune.search._storage import MOST_KEPT, PredictionStore, candidates, complete_predictions
from shiftune.search._trial import MODEL, PREDICTIONS_BYTES, Candidate, Outcome, run_trial
from shiftune.workers import Workers

ALPHA = {"alpha": FloatDistribution(1e-3, 1e3, log=True)}


@pytest.fixture(scope="module")
def problem():
    return toy_problem(1.0, n=100, random_state=1).problem


@pytest.fixture
def journal(tmp_path):
    return tmp_path / "study.journal"


def make(storage=None, **options):
    options = {"n_trials": 4, "sampler": "random", "progress": False, **options}
    return ShiftSearch(options.pop("model", Ridge()), options.pop("space", ALPHA),
                       storage=storage, **options)  # fmt: skip


def files(journal):
    folder = journal.with_name("study.journal.predictions")
    return sorted(path.name for path in folder.iterdir())


def predictions_of(search, numbers):
    return trial_predictions(
        search.result_.settings,
        search.result_.context,
        search.study_,
        search._opened.predictions,
        numbers,
    )


def same(one, other):
    np.testing.assert_array_equal(one, other)
    assert one.dtype == other.dtype


class TestStore:
    @pytest.fixture(params=["memory", "files"])
    def store(self, request, tmp_path):
        return PredictionStore(
            tmp_path / "predictions" if request.param == "files" else None, "mark"
        )

    @pytest.mark.parametrize(("shape", "dtype"), [((5,), np.float64), ((5, 3), np.float32)])
    def test_what_was_put_is_there(self, store, rng, shape, dtype):
        predictions = rng.random(shape).astype(dtype)
        store.put(12, predictions)
        same(store.get(12), predictions)
        assert store.get(1) is None

    def test_bytes_on_disk(self, store):
        store.put(0, np.ones(1000))
        if store.folder is not None:
            assert (store.folder / "0.npz").stat().st_size < 9_000

    def test_put_again(self, store):
        for value in (1.0, 2.0):
            store.put(0, np.full(3, value))
        assert store.get(0).tolist() == [2, 2, 2]

    def test_keep(self, store):
        for number in range(5):
            store.put(number, np.ones(2))
        store.keep([1, 3, 9])
        assert [store.get(number) is not None for number in range(5)] == [0, 1, 0, 1, 0]
        if store.folder is not None:
            assert sorted(path.name for path in store.folder.iterdir()) == ["1.npz", "3.npz"]

    def test_pickled(self, store):
        """Files stay where they are; what is in memory can be computed again."""
        store.put(0, np.ones(50_000))
        copy = pickle.dumps(store)
        assert len(copy) < 1000
        if store.folder is None:
            assert pickle.loads(copy).get(0) is None
            assert store.get(0) is not None
        else:
            same(pickle.loads(copy).get(0), store.get(0))


def test_keep_removes_parts_and_nothing_of_others(tmp_path):
    (tmp_path / ".part-7.npz").write_bytes(b"PK")
    (tmp_path / "mine.npz").write_bytes(b"PK")
    (tmp_path / "7.txt").write_text("")
    PredictionStore(tmp_path).keep([7])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["7.txt", "mine.npz"]


def test_files_of_another_study(tmp_path):
    PredictionStore(tmp_path, "one").put(0, np.ones(2))
    assert PredictionStore(tmp_path, "other").get(0) is None
    assert not list(tmp_path.iterdir())


def test_a_file_of_another_trial(tmp_path, caplog):
    store = PredictionStore(tmp_path, "mark")
    for number in (0, 1):
        store.put(number, np.full(2, float(number)))
    shutil.copy(tmp_path / "0.npz", tmp_path / "1.npz")
    assert store.get(0) is not None
    assert store.get(1) is None
    assert "of another trial" in caplog.text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.npz"]


def test_no_damage_goes_unnoticed(tmp_path, rng):
    """Any flipped byte leaves the predictions as they were, or missing."""
    store = PredictionStore(tmp_path, "mark")
    predictions = rng.random(40)
    store.put(0, predictions)
    path = tmp_path / "0.npz"
    whole = path.read_bytes()
    missing = 0
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x5A]) + whole[place + 1 :])
        found = store.get(0)
        missing += found is None
        assert path.exists() == (found is not None)
        if found is not None:
            same(found, predictions)
    assert missing > 320  # all bytes of the array
    path.write_bytes(whole[: len(whole) // 2])
    assert store.get(0) is None


def test_a_disk_that_is_full(tmp_path, monkeypatch):
    def full(*args, **arrays):
        raise OSError(28, "No space left on device")

    store = PredictionStore(tmp_path)
    monkeypatch.setattr(np, "savez", full)
    store.put(0, np.ones(2))
    assert store.get(0).tolist() == [1, 1]
    assert not list(tmp_path.iterdir())


def trial(number, value, size=16, model=""):
    made = create_trial(value=value, user_attrs={PREDICTIONS_BYTES: size, MODEL: model})
    made.number = number
    return made


class TestCandidates:
    def test_the_best_of_every_family(self):
        trials = [trial(i, (7 * i) % 100, model="ab"[i >= 50]) for i in range(100)]
        found = candidates(trials)
        assert len(found) == 2 * MOST_KEPT
        for family in (range(50), range(50, 100)):
            best = sorted(family, key=lambda i: (7 * i) % 100)[:MOST_KEPT]
            assert {n for n in found if n in family} == set(best)

    def test_so_many_bytes_in_all(self, monkeypatch):
        monkeypatch.setattr(_storage, "MOST_BYTES", 1000)
        trials = [trial(i, i, size=100, model="ab"[i % 2]) for i in range(40)]
        assert len(candidates(trials)) == 10
        assert candidates([trial(0, 1.0, size=5000), trial(1, 0.5, size=5000)]) == [1]

    def test_trials_without_predictions(self):
        failed = create_trial(state=TrialState.FAIL)
        assert candidates([trial(0, 1.0, size=0), failed, trial(2, 2.0)]) == [2]
        assert candidates([]) == []


@pytest.mark.parametrize("risk", ["adjusted", "naive"])
def test_a_search_keeps_predictions(problem, journal, risk):
    on_disk, in_memory = (make(storage, risk=risk).fit(problem) for storage in (journal, None))
    assert files(journal) == [f"{n}.npz" for n in range(4)]
    for number in range(4):
        same(on_disk._opened.predictions.get(number), in_memory._opened.predictions.get(number))
        alpha = float(on_disk.trials_["param_alpha"][number])
        by_hand = run_trial(on_disk.result_.context, Candidate({"alpha": alpha}))
        same(on_disk._opened.predictions.get(number), by_hand.predictions)


def test_predictions_travel_from_workers(problem):
    ours, plain = (make(**each).fit(problem) for each in ({"trial_timeout": 1e6}, {}))
    for number in range(4):
        same(ours._opened.predictions.get(number), plain._opened.predictions.get(number))


def test_a_bounded_number(problem, journal, monkeypatch):
    monkeypatch.setattr(_storage, "MOST_KEPT", 3)
    search = make(journal, n_trials=8).fit(problem)
    best = search.trials_["criterion"].sort_values().index[:3]
    assert files(journal) == sorted(f"{n}.npz" for n in best)


def test_a_resumed_run_has_them(problem, journal):
    make(journal, n_trials=2).fit(problem)
    resumed, whole = make(journal).fit(problem), make().fit(problem)
    for number in range(4):
        same(resumed._opened.predictions.get(number), whole._opened.predictions.get(number))


def test_a_journal_that_was_removed(problem, journal):
    """Its predictions are left, and belong to none of the new trials."""
    make(journal, n_trials=3).fit(problem)
    journal.unlink()
    search = make(journal, n_trials=1, random_state=5).fit(problem)
    assert files(journal) == ["0.npz"]
    same(
        search._opened.predictions.get(0),
        make(n_trials=1, random_state=5).fit(problem)._opened.predictions.get(0),
    )


class Counted(Ridge):
    fits = 0

    def fit(self, *args, **options):
        Counted.fits += 1
        return super().fit(*args, **options)


def derived(trial):
    return {"alpha": 2 * trial.suggest_float("half", 1e-3, 1e3, log=True)}


@pytest.mark.parametrize(
    ("space", "n_jobs"),
    [(ALPHA, 1), (derived, 1), pytest.param(derived, 2, marks=pytest.mark.slow)],
    ids=["mapping", "function", "two"],
)
def test_missing_ones_are_computed_again(problem, journal, space, n_jobs):
    search = make(journal, space=space, model=Counted(), n_jobs=n_jobs).fit(problem)
    before, risk = predictions_of(search, range(4)), search.trials_["risk"]
    folder = journal.with_name("study.journal.predictions")
    (folder / "1.npz").unlink()
    (folder / "2.npz").write_bytes(b"damaged")
    Counted.fits = 0
    after = predictions_of(search, range(4))
    if n_jobs == 1:
        assert Counted.fits == 2 * 2  # one without each of the two sources
    plain = make(space=space).fit(problem)
    for number in range(4):
        same(before[number], plain._opened.predictions.get(number))
        same(before[number], after[number])
    assert files(journal) == [f"{n}.npz" for n in range(4)]
    Counted.fits = 0
    assert list(predictions_of(search, [2])) == [2]
    assert Counted.fits == 0
    resumed = make(journal, space=space, model=Counted(), n_jobs=n_jobs).fit(problem)
    np.testing.assert_array_equal(resumed.trials_["risk"], risk)


def outcome_of(context, item):
    if item == "dies":
        raise RuntimeError("no memory")
    if item == "fails":
        return Outcome(None, "failed", 0.0)
    return Outcome(None, "", 0.0, predictions=context)


def test_trials_that_fail_when_computed_again(caplog):
    store = PredictionStore(None)
    items = {3: "fine", 4: "dies", 5: "fails", 6: "fine"}
    found = complete_predictions(store, items, lambda: Workers(outcome_of, np.ones(2)))
    assert list(found) == [3, 6]
    assert "computing again the predictions of 4 trials" in caplog.text
    assert store.get(6) is not None


def test_nothing_is_started_where_nothing_is_missing():
    store = PredictionStore(None)
    store.put(0, np.ones(2))
    assert list(complete_predictions(store, {0: {}}, lambda: pytest.fail("workers"))) == [0]


def test_predictions_that_only_the_loss_understands_are_not_kept(problem):
    def nearness(y, texts):
        return np.abs(y - np.array([float(text) for text in texts]))

    search = make(model=Text(), loss=nearness).fit(problem)
    assert (search.trials_["state"] == "COMPLETE").all()
    assert candidates(search.study_.trials) == []
    assert search.result_.choice.predictions is None
    assert search.risk_ is search.result_.risks[search.best_index_]


class Text(Ridge):
    """Writes its predictions as text."""

    def predict(self, X):
        return super().predict(X).astype(str)


KILLED = """
import os, signal, sys
from optuna.distributions import FloatDistribution
from sklearn.linear_model import Ridge
from shiftune import ShiftSearch
from reproduction.toy import toy_problem
from shiftune.search._loop import Loop

place = sys.argv[1]

def killed(self, *args, **options):
    if len(os.listdir("study.journal.predictions")) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return before(self, *args, **options)

def torn(*args, **options):
    if os.path.exists("study.journal.predictions/1.npz"):
        args[0].write(b"PK half")
        args[0].flush()
        os.kill(os.getpid(), signal.SIGKILL)
    return before(*args, **options)

if place == "writing":
    import numpy
    before, numpy.savez = numpy.savez, torn
else:
    before, Loop._tell_study = Loop._tell_study, killed
ShiftSearch(
    Ridge(), {"alpha": FloatDistribution(1e-3, 1e3, log=True)}, n_trials=4, sampler="random",
    storage="study.journal", progress=False,
).fit(toy_problem(1.0, n=100, random_state=1).problem)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills")
@pytest.mark.parametrize("place", ["writing", pytest.param("recording", marks=pytest.mark.slow)])
def test_a_run_that_was_killed(problem, journal, place):
    """While a file is written, and between the file and the record of its trial."""
    code = subprocess.run(
        [sys.executable, "-c", KILLED, place], check=False, cwd=journal.parent
    ).returncode
    assert code == -signal.SIGKILL
    left = [".part-2.npz", "0.npz", "1.npz"] if place == "writing" else ["0.npz", "1.npz"]
    assert files(journal) == left
    resumed, whole = make(journal).fit(problem), make().fit(problem)
    assert files(journal) == [f"{n}.npz" for n in range(4)]
    for number in range(4):
        same(resumed._opened.predictions.get(number), whole._opened.predictions.get(number))
