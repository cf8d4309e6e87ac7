"""Opening a storage has no effect on anything else."""

from __future__ import annotations

import logging
from logging.handlers import BufferingHandler

import optuna
import pytest

from shiftune.risk import RegressionAdjusted
from shiftune.search._storage import open_study, stable_repr


@pytest.fixture
def records():
    """Records that reach the handlers of Optuna's logger."""
    handler = BufferingHandler(100)
    logger = logging.getLogger("optuna")
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    yield handler.buffer
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.mark.parametrize("kind", ["memory", "journal", "database"])
def test_a_new_study_is_not_announced(tmp_path, kind, records):
    storages = {
        "memory": None,
        "journal": tmp_path / "study.journal",
        "database": f"sqlite:///{tmp_path}/study.db",
    }
    for _ in range(2):
        open_study(storages[kind], {})
    assert records == []
    optuna.create_study()
    assert [record.levelname for record in records] == ["INFO"]


def test_the_logger_of_other_threads_is_left_as_it_is(monkeypatch, records):
    levels = []

    def create(create=optuna.create_study, **options):
        levels.append(logging.getLogger("optuna").level)
        return create(**options)

    monkeypatch.setattr(optuna, "create_study", create)
    open_study(None, {})
    assert levels == [logging.getLogger("optuna").level] == [logging.INFO]


def test_our_own_settings_have_their_public_names():
    """A private module may move; a journal that names it would be taken for another search."""
    assert stable_repr(RegressionAdjusted).startswith("shiftune.risk.RegressionAdjusted")
