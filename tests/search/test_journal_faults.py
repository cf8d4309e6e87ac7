"""Faults of a journal's file: nothing finished is lost, and no damage goes unnoticed."""

from __future__ import annotations

import os
import shutil
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from faults.damage import DAMAGES, dropped, swapped, twice, without_the_end
from optuna.distributions import FloatDistribution
from reproduction.toy import toy_problem
from sklearn.linear_model import Ridge

from shiftune.errors import StorageError
from shiftune.search import ShiftSearch
from shiftune.search._journal import JournalFile, repair
from shiftune.search._storage import trials_in
from shiftune.workers._in_worker import CONTEXT_FILE
from shiftune.workers._processes import _Worker

TRIALS = 4
PROBLEM = toy_problem(1.0, n=60, random_state=1).problem


def fitted(storage, **options):
    space = {"alpha": FloatDistribution(1e-3, 1e3, log=True)}
    search = ShiftSearch(
        Ridge(), space, n_trials=TRIALS, risk="naive", sampler="random", storage=storage,
        progress=False, **options,
    )  # fmt: skip
    return search.fit(PROBLEM).trials_.drop(columns="seconds")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Trials of a search without faults, and its journal."""
    path = tmp_path_factory.mktemp("whole") / "study.journal"
    return fitted(path), path.read_bytes()


@pytest.fixture
def journal(tmp_path):
    (tmp_path / "run").mkdir()
    return tmp_path / "run" / "study.journal"


# ---------------------------------------------------------------- while a search is running


def full(journal):
    raise OSError(28, "No space left on device")


def read_only(journal):
    raise OSError(30, "Read-only file system")


def removed(journal):
    shutil.rmtree(journal.parent)


def deleted(journal):
    journal.unlink()


def cut(journal):
    os.truncate(journal, journal.stat().st_size // 2)


def begun_anew(journal):
    journal.unlink()
    journal.touch()


@pytest.mark.parametrize("at", [1, 21])
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (full, r"cannot be written \(No space left on device\); fix this, then rerun"),
        (read_only, r"cannot be written \(Read-only file system\)"),
        (removed, r"cannot be written \(No such file or directory\)"),
        (deleted, r"cannot be written \(No such file or directory\)"),
        (cut, "was cut or replaced by another program.*rerun to continue"),
        (begun_anew, "was cut or replaced by another program.*rerun to continue"),
    ],
)
def test_a_fault_while_a_search_is_running(journal, monkeypatch, whole, fault, message, at):
    synced, kept = 0, []

    def sync(descriptor, sync=os.fsync):
        nonlocal synced
        sync(descriptor)
        synced += 1
        if synced > at and not kept:
            kept[:] = [trials_in(journal)]
            fault(journal)

    with monkeypatch.context() as patched:
        # Reading the trials must not wait for the lock that the writer holds.
        patched.setattr("shiftune.search._journal.record_lock", lambda _: nullcontext())
        patched.setattr(os, "fsync", sync)
        with pytest.raises(StorageError, match=message):
            fitted(journal)
    if fault in (full, read_only):
        assert trials_in(journal) == kept[0]
        assert not journal.read_bytes() or journal.read_bytes().endswith(b"\n")
    pd.testing.assert_frame_equal(fitted(journal), whole[0])


def test_workers_that_cannot_read_the_data(journal, monkeypatch, whole):
    """The trial is not blamed: it runs again."""

    before_the_third = iter([False, False, True])

    def run_without_data(worker, item, payload, run=_Worker.run):
        if next(before_the_third, False):
            Path(worker._folder, CONTEXT_FILE).unlink()
            worker._end()  # another one reads the data
        return run(worker, item, payload)

    with monkeypatch.context() as patched:
        patched.setattr(_Worker, "run", run_without_data)
        with pytest.raises(StorageError, match=r"workers cannot read .*No such file.*TMPDIR"):
            fitted(journal, trial_timeout=1e6)
    assert len(trials_in(journal)) == 2
    pd.testing.assert_frame_equal(fitted(journal), whole[0])


# ---------------------------------------------------------------- between two runs


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_cut_off(journal, whole, damage):
    """Of a damaged journal the records before the damage are left, and all of it is set aside."""
    content = whole[1]
    for place in np.random.default_rng(0).integers(1 << 30, size=50):
        damaged = damage(content, int(place))
        journal.write_bytes(damaged)
        repair(journal)
        left = journal.read_bytes()
        copies = [path.read_bytes() for path in journal.parent.glob("*.damaged")]
        if content.startswith(left):
            assert copies == [damaged] or damaged.rpartition(b"\n")[0] in left
        else:  # in the last checksum, which nothing follows
            assert left == damaged
            assert left[:-20] == content[:-20]
        records = list(JournalFile(journal).read_logs(0))
        assert len(records) == left.count(b"\n")
        for path in journal.parent.iterdir():
            path.unlink()


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_trials_of_a_damaged_journal_run_again(journal, whole, damage, caplog):
    trials, content = whole
    damaged = damage(content, len(content) // 2)
    if damage in (dropped, swapped, twice):
        damaged = damage(content, content.count(b"\n") // 2)
    journal.write_bytes(damaged)
    pd.testing.assert_frame_equal(fitted(journal), trials)
    if damage is without_the_end:
        assert "was not written to its end and is dropped" in caplog.text
    else:
        assert "a copy of it is study.journal.damaged, and the trials from" in caplog.text
        assert journal.with_name("study.journal.damaged").read_bytes() == damaged


def test_earlier_copies_are_kept(journal, whole):
    for _ in range(2):
        journal.write_bytes(dropped(whole[1], 5))
        repair(journal)
    names = {path.name for path in journal.parent.iterdir()}
    assert names == {"study.journal", "study.journal.damaged", "study.journal.damaged-2"}


def test_records_of_other_programs(journal, whole):
    """Such as notes of optuna-dashboard, which have no checksum."""
    journal.write_bytes(whole[1])
    note = b'{"op_code":3,"worker_id":"x","study_id":0,"system_attr":{"note":"good"}}\n'
    with journal.open("ab") as file:
        file.write(note)
    backend = JournalFile(journal)
    backend.append_logs([{"op_code": 2, "worker_id": "y", "study_id": 0, "user_attr": {"a": 1}}])
    content = journal.read_bytes()
    assert content.startswith(whole[1] + note)
    repair(journal)
    assert journal.read_bytes() == content
    journal.write_bytes(content.replace(b"good", b"wood"))
    repair(journal)
    assert journal.read_bytes() == whole[1]
