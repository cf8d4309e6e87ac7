"""Several drivers on one study: places, owners, deaths. test_join_killed.py kills processes."""

from __future__ import annotations

import os
import threading

import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import Trial, TrialState
from reproduction.toy import toy_problem
from sklearn.linear_model import Ridge

from shiftune.errors import SettingsError, StorageError
from shiftune.search import ShiftSearch, _driver
from shiftune.search._driver import (
    LOOKS,
    Claims,
    FileHeartbeats,
    Heartbeat,
    JoinedDriver,
    StudyHeartbeats,
)
from shiftune.search._journal import is_searched, search_lock
from shiftune.search._settings import sampler_named
from shiftune.search._storage import PredictionStore, open_claims, open_study
from shiftune.search._trial import DEFAULTS, FAILURE, MODEL, finished_trials

SPACE = {"alpha": FloatDistribution(1e-3, 1e3, log=True)}


@pytest.fixture(scope="module")
def problem():
    return toy_problem(1.0, n=60, random_state=1).problem


def search(storage, model=None, **options):
    given = {"n_trials": 4, "risk": "naive", "sampler": "random", "progress": False, "join": True}
    return ShiftSearch(model or Ridge(), SPACE, storage=storage, **given | options)


class Alive:
    """Heartbeats as a test wants them."""

    def __init__(self):
        self.numbers = set()

    def alive(self, numbers):
        return self.numbers.intersection(numbers)


class Team:
    """Drivers of one study."""

    def __init__(self, storage=None):
        self.study = open_study(storage, {}, join=storage is not None)
        self.heartbeat = Alive()

    def driver(self, alive=True):
        new = JoinedDriver(self.study, open_claims(self.study), self.heartbeat)
        if alive:
            self.heartbeat.numbers.add(new.number)
        return new


# A new database takes a second.
SQLITE = pytest.mark.slow


@pytest.fixture(params=["memory", "journal", pytest.param("sqlite", marks=SQLITE)])
def team(request, tmp_path):
    places = {"journal": tmp_path / "study.journal", "sqlite": f"sqlite:///{tmp_path}/study.db"}
    return Team(places.get(request.param))


class TestPlaces:
    def test_never_more_trials_than_wanted(self, team):
        drivers = [team.driver() for _ in range(3)]
        asked = [driver.ask(4, None, {}) for _ in range(2) for driver in drivers]
        assert [trial and trial.number for trial in asked] == [0, 1, 2, 3, None, None]
        assert not any(driver.has_place(4) for driver in drivers)
        assert drivers[0].has_place(5)

    def test_of_two_that_begin_the_last_trial_one_withdraws(self, team, monkeypatch):
        first, second = team.driver(), team.driver()
        looks = []

        def late(trials=first._trials):
            """Another driver takes the last place after this one has found it free."""
            looks.append(None)
            if len(looks) == 2:
                return trials()
            found = trials()
            assert second.ask(1, None, {}).number == 0
            return found

        monkeypatch.setattr(first, "_trials", late)
        assert first.ask(1, None, {}) is None
        states = [trial.state for trial in team.study.get_trials()]
        assert states == [TrialState.RUNNING, TrialState.FAIL]
        assert finished_trials(team.study) == []

    def test_one_trial_of_a_family_has_its_defaults(self, team):
        first, second = team.driver(), team.driver()
        marks = {MODEL: "linear", DEFAULTS: True}
        trial = first.ask(9, {"alpha": 2.0}, marks)
        assert trial.suggest_float("alpha", 0, 5) == 2.0
        assert second.ask(9, {"alpha": 2.0}, marks) is None
        assert second.ask(9, {"alpha": 2.0}, marks | {MODEL: "trees"}) is not None

    def test_its_driver_dies_before_it_withdraws(self, team, monkeypatch):
        first, dead = team.driver(), team.driver(alive=False)
        marks = {MODEL: "linear", DEFAULTS: True}
        monkeypatch.setattr(dead, "_withdraw", lambda _: None)
        assert first.ask(9, {}, marks)
        assert dead.ask(9, {}, marks) is None
        assert first.orphan(9) is None
        states = [trial.state for trial in team.study.get_trials()]
        assert states == [TrialState.RUNNING, TrialState.FAIL]

    def test_they_wait_for_each_other(self, team, monkeypatch):
        monkeypatch.setattr(_driver, "POLL_SECONDS", 0.0)
        first, second = team.driver(), team.driver()
        trial = first.ask(1, None, {})
        assert second.wait(1)
        team.study.tell(trial, 0.5)
        first.recorded(trial)
        assert not second.wait(1)
        assert [len(driver.finished_by_others()) for driver in (first, second, second)] == [0, 1, 0]


class TestOwners:
    def test_a_trial_of_the_living_is_left_alone(self, team):
        first, second = team.driver(), team.driver()
        assert first.ask(2, None, {}).number == 0
        assert second.orphan(2) is None

    def test_one_takes_over_a_trial_of_the_dead_as_it_was(self, team):
        dead, first, second = team.driver(alive=False), team.driver(), team.driver()
        trial = dead.ask(2, None, {})
        alpha = trial.suggest_float("alpha", 0, 1)
        assert first.orphan(2).params == {"alpha": alpha}
        assert second.orphan(2) is None

    def test_two_that_claim_at_the_same_time(self, team, monkeypatch):
        dead, first, second = team.driver(alive=False), team.driver(), team.driver()
        dead.ask(2, None, {})
        orphans = first._orphans(first._trials())
        for driver in (first, second):  # both have seen it
            monkeypatch.setattr(driver, "_orphans", lambda _: orphans)
        taken = [driver.orphan(2) for driver in (first, second)]
        assert [each and each.number for each in taken] == [0, None]

    def test_it_is_handed_on_and_back(self, team):
        first, second = team.driver(), team.driver()
        trial = first.ask(2, None, {})
        for of, to in [(first, second), (second, first), (first, second)]:
            team.heartbeat.numbers = {to.number}
            of._running.clear()  # it has stopped, and its own work is lost
            assert to.orphan(2).number == trial.number

    def test_one_that_its_drivers_do_not_survive_is_given_up(self, team):
        assert team.driver(alive=False).ask(2, None, {}).number == 0
        for _ in range(_driver.MAX_DEATHS - 1):
            assert team.driver(alive=False).orphan(2).number == 0
        assert team.driver().orphan(2) is None
        (trial,) = finished_trials(team.study)
        assert trial.user_attrs[FAILURE].startswith("DriverDied: 30 processes")

    def test_a_late_result_is_refused(self, team):
        paused, other = team.driver(alive=False), team.driver()
        trial = paused.ask(1, None, {})
        taken = Trial(team.study, other.orphan(1)._trial_id)
        team.study.tell(taken, 0.5)
        assert paused.was_late(trial)
        with pytest.raises(UpdateFinishedTrialError):
            trial.set_user_attr(FAILURE, "late")
        with pytest.raises(ValueError, match="Cannot tell a COMPLETE trial"):
            team.study.tell(trial, 0.7)
        assert [trial.value for trial in finished_trials(team.study)] == [0.5]

    def test_the_first_result_counts_whoever_has_it(self, team):
        """Two that are taken for dead in turn do not throw away each other's results."""
        slow, other = team.driver(alive=False), team.driver()
        trial = slow.ask(1, None, {})
        taken = Trial(team.study, other.orphan(1)._trial_id)
        team.study.tell(trial, 0.5)
        assert other.was_late(taken)
        assert [trial.value for trial in finished_trials(team.study)] == [0.5]

    def test_one_that_is_finished_after_it_was_claimed(self, team, monkeypatch):
        late, other = team.driver(alive=False), team.driver()
        trial = late.ask(2, None, {})
        claim = other._claims.claim

        def claimed(*given):
            found = claim(*given)
            team.study.tell(trial, 0.5)
            return found

        monkeypatch.setattr(other._claims, "claim", claimed)
        assert other.orphan(2) is None

    def test_a_driver_does_not_take_over_its_own(self, team):
        first, second = team.driver(), team.driver()
        first.ask(2, None, {})
        team.heartbeat.numbers = set()  # its heartbeats cannot be read
        assert first.orphan(2) is None
        assert second.orphan(2).number == 0
        assert first.orphan(2) is None  # the second is dead now, and the first still runs it

    def test_trials_in_the_queue_and_of_a_search_alone(self, team):
        team.study.enqueue_trial({"alpha": 0.25})
        alone = team.study.ask()
        team.study.enqueue_trial({"alpha": 0.5})
        driver = team.driver()
        assert driver.orphan(9).number == alone.number
        queued = driver.orphan(9)
        assert Trial(team.study, queued._trial_id).suggest_float("alpha", 0, 1) == 0.5
        states = [trial.state for trial in team.study.get_trials()]
        assert states == [TrialState.RUNNING, TrialState.RUNNING]

    def test_one_beyond_the_last_place_is_left(self, team):
        dead, driver = team.driver(alive=False), team.driver()
        for _ in range(3):
            dead.ask(3, None, {})
        assert [driver.orphan(2) and 1 for _ in range(3)] == [1, 1, None]

    def test_an_owner_that_wakes_up_is_first(self, team, monkeypatch):
        """It finishes its trial while another driver is about to give the trial up."""
        owner, other = team.driver(alive=False), team.driver()
        trial = owner.ask(1, None, {})
        state = other._state

        def late(of):
            found = state(of)
            team.study.tell(trial, 1.0)
            return found

        monkeypatch.setattr(other, "_state", late)
        monkeypatch.setattr("shiftune.search._driver.MAX_DEATHS", 1)
        assert other.orphan(1) is None
        assert team.study.trials[0].value == 1.0


class TestHeartbeat:
    def test_a_storage_that_does_not_answer_keeps_nobody(self, monkeypatch):
        blocked, asked = threading.Event(), threading.Event()

        class Silent:
            def start(self, number):
                pass

            def beat(self, count):
                asked.set()
                blocked.wait()

        monkeypatch.setattr("shiftune.search._driver.INTERVAL", 0.0)
        monkeypatch.setattr("shiftune.search._driver.END_SECONDS", 0.0)
        try:
            with Heartbeat(Silent()).of(1):
                asked.wait()
        finally:
            blocked.set()

    @pytest.fixture(params=["study", "files"])
    def heartbeats(self, request, tmp_path):
        study = optuna.create_study()

        def new():
            if request.param == "study":
                return StudyHeartbeats(study)
            pytest.importorskip("fcntl", reason="locks of the kernel")
            return FileHeartbeats(tmp_path / "study.journal")

        return new

    def test_who_has_ended_is_not_alive(self, heartbeats):
        one, other = heartbeats(), Heartbeat(heartbeats())
        one.start(3)
        assert other.alive([3, 4]) == {3}
        one.end()
        assert other.alive([3, 4]) == set()

    def test_beside_a_journal_with_brackets(self, tmp_path):
        heartbeats = FileHeartbeats(tmp_path / "study[1].journal")
        heartbeats.start(3)
        assert list(heartbeats.read()) == [3]
        heartbeats.end()
        assert not list(tmp_path.iterdir())

    def test_a_heartbeat_that_cannot_be_read_is_none_of_the_dead(self, tmp_path, monkeypatch):
        def no_more_files(path):
            raise OSError(24, "Too many open files")

        monkeypatch.setattr("shiftune.search._driver.is_locked", no_more_files)
        assert Heartbeat(FileHeartbeats(tmp_path / "study.journal")).alive({3}) == {3}

    def test_who_stands_still_is_dead_until_it_moves(self, heartbeats):
        one, other = heartbeats(), Heartbeat(heartbeats())
        one.start(3)
        for count in range(2 * LOOKS):
            one.beat(count)
            other.look()
        assert other.alive([3, 4]) == {3}
        for _ in range(LOOKS - 1):
            other.look()
        assert other.alive([3, 4]) == set()
        one.beat(100)
        assert other.alive([3, 4]) == {3}
        one.end()

    def test_a_search_beats(self, heartbeats):
        one, other = Heartbeat(heartbeats()), Heartbeat(heartbeats())
        with one.of(3), other.of(4):
            assert one.alive([3, 4]) == other.alive([3, 4]) == {3, 4}
        assert one.alive([3, 4]) == set()


class TestLock:
    @pytest.fixture(autouse=True)
    def journal(self, tmp_path):
        pytest.importorskip("fcntl", reason="locks of the kernel")
        return tmp_path / "study.journal"

    def test_searches_that_join(self, journal):
        with search_lock(journal, join=True):
            with search_lock(journal, join=True):
                assert is_searched(journal)
            with (
                pytest.raises(StorageError, match="another search"),
                search_lock(journal, join=False),
            ):
                pass
        assert not is_searched(journal)
        assert not list(journal.parent.iterdir())

    def test_a_search_alone_is_left_alone(self, journal, monkeypatch):
        monkeypatch.setattr("shiftune.search._journal.ATTEMPTS", 1)
        with (
            search_lock(journal, join=False),
            pytest.raises(StorageError, match="another search"),
            search_lock(journal, join=True),
        ):
            pass

    def test_without_locks(self, journal, monkeypatch):
        def none(*_):
            raise OSError("Function not implemented")

        monkeypatch.setattr("fcntl.flock", none)
        with (
            pytest.raises(StorageError, match=r"no file locks.*database"),
            search_lock(journal, join=True),
        ):
            pass


class Dying(Ridge):
    """A model whose driver dies in its second fit, unless a worker runs it."""

    fits = 0

    def __init__(self, driver=0, alpha=1.0):
        super().__init__(alpha)
        self.driver = driver

    def fit(self, *args, **options):
        type(self).fits += 1
        if type(self).fits == 2 and self.driver == os.getpid():
            raise KeyboardInterrupt
        return super().fit(*args, **options)


@pytest.mark.parametrize(
    "storage", ["{}/study.journal", pytest.param("sqlite:///{}/study.db", marks=SQLITE)]
)
def test_a_search_that_dies_and_one_that_joins(problem, tmp_path, storage):
    storage = storage.format(tmp_path)
    Dying.fits = 0
    first = search(storage, Dying(os.getpid()))
    with pytest.raises(KeyboardInterrupt):
        first.fit(problem)
    (left,) = first.study_.get_trials(states=(TrialState.RUNNING,))
    second = search(storage, Dying(os.getpid())).fit(problem)
    assert second.trials_.index.to_list() == [0, 1, 2, 3]
    assert second.trials_["param_alpha"][left.number] == left.params["alpha"]
    drivers = [trial.user_attrs["driver"] for trial in second.study_.get_trials()]
    assert drivers[:2] == [drivers[0]] * 2 != drivers[2:]
    with pytest.raises(StorageError, match="other settings"):
        search(storage, Dying(os.getpid()), risk="adjusted").fit(problem)
    more = search(storage, Dying(os.getpid()), n_trials=6, join=False).fit(problem)
    assert len(more.trials_) == 6


def test_the_first_settings_count(tmp_path):
    storage = tmp_path / "study.journal"
    study = open_study(storage, {"seed": "1"}, join=True)
    again = open_study(storage, {"seed": "1"}, join=True)
    assert study.user_attrs == again.user_attrs
    with pytest.raises(StorageError, match="other settings"):
        open_study(storage, {"seed": "2"}, join=True)


def test_it_needs_a_storage(problem):
    with pytest.raises(SettingsError, match="join=True is for processes that share a storage"):
        search(None).fit(problem)


def test_predictions_in_a_folder(problem, tmp_path):
    storage, folder = tmp_path / "study.journal", tmp_path / "predictions"
    search(storage, risk="adjusted", predictions_folder=folder).fit(problem)
    assert sorted(path.name for path in folder.iterdir()) == [f"{n}.npz" for n in range(4)]


def test_predictions_of_trials_that_others_are_recording_are_kept(tmp_path):
    store = PredictionStore(tmp_path)
    for name in ("1.npz", "2.npz", "3.npz", ".part-3.npz"):
        (tmp_path / name).touch()
    store.keep([1], among=[1, 2])
    assert {path.name for path in tmp_path.iterdir()} == {"1.npz", "3.npz", ".part-3.npz"}


@pytest.mark.parametrize("sampler", ["tpe", optuna.samplers.RandomSampler(seed=0)])
def test_drivers_propose_different_things(sampler):
    found = []
    for driver in (0, 1):
        study = optuna.create_study(sampler=sampler_named(sampler, 0, 0, driver))
        found.append(study.ask().suggest_float("alpha", 0, 1))
    assert found[0] != found[1]


def test_claims_have_an_order():
    claims = Claims(optuna.create_study())
    assert [claims.add("driver", name) for name in "abc"] == [0, 1, 2]
    assert claims.claim("driver", "d") == "a"
