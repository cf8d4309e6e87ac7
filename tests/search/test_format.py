"""A journal has a format number; other numbers are refused."""

from __future__ import annotations

import pytest

from shiftune.errors import StorageError
from shiftune.search._storage import FORMAT, FORMAT_NUMBER, open_study

IDENTITY = {"data": "abc", "loss": "squared"}


def journal_with(path, number):
    study = open_study(path, IDENTITY)
    study.add_trial(optuna_trial())
    study.set_user_attr(FORMAT_NUMBER, number)
    return path


def optuna_trial():
    from optuna.trial import create_trial

    return create_trial(value=1.0)


def test_the_same_format_continues(tmp_path):
    path = journal_with(tmp_path / "study.journal", FORMAT)
    assert len(open_study(path, IDENTITY).trials) == 1


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (7, r"newer shiftune \(format 7; this version reads 6\).*upgrade"),
        (5, "older"),
        (None, "older"),
    ],
)
def test_other_formats_are_refused(tmp_path, number, message):
    path = journal_with(tmp_path / "study.journal", number)
    with pytest.raises(StorageError, match=message):
        open_study(path, IDENTITY)
