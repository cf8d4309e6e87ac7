"""Opening a storage has no effect on anything else."""

from __future__ import annotations

import copy
import logging
import traceback
from logging.handlers import BufferingHandler

import optuna
import pytest
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from shiftune import ShiftSearch
from shiftune.errors import MissingPackageError, StorageError
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


URLS = [
    "postgresql+psycopg://me:s3/cr@et@server/trials",
    "postgresql+psycopg://:s3/cr@server/trials",
    "postgresql+psycopg://server/trials?user=me&password=s3/cr@et",
    "postgresql+psycopg://me:s3/cr@server/trials?sslmode=require&sslpassword=s3/cr%40et",
    "postgresql+psycopg://me:s3/cr",
    "mssql+pyodbc:///?odbc_connect=DRIVER%3Dx%3BUID%3Dme%3BPWD%3Ds3/cr",
]


@pytest.mark.parametrize("url", URLS)
def test_a_search_does_not_show_passwords(url):
    """In whatever way it is shown; Optuna still gets them."""
    search = ShiftSearch("ridge", storage=url)
    later = ShiftSearch("ridge").set_params(storage=url)
    for each in (search, later, clone(search), copy.deepcopy(later)):
        assert each.storage == each.get_params()["storage"] == url
        around = Pipeline([("search", each)])
        for text in (repr(each), str(each), repr(around), repr(each.get_params())):
            assert "s3/cr" not in text
            assert "***" in text
        for html in (each._repr_html_(), around._repr_html_()):
            assert "s3/cr" not in html


@pytest.mark.parametrize("url", URLS)
def test_errors_of_a_storage_do_not_show_passwords(url, monkeypatch):
    """Nor does the traceback, whatever the database driver writes."""

    def refuse(storage):
        raise ValueError(f"cannot parse {storage}, or decoded s3/cr@et")

    monkeypatch.setattr(optuna.storages, "get_storage", refuse)
    with pytest.raises(StorageError, match=r"the storage '.*\*\*\*.*cannot be opened") as raised:
        open_study(url, {})
    text = "".join(traceback.format_exception(raised.value))
    assert "s3/cr" not in text
    assert "cannot parse" in text


def test_a_database_without_its_package(monkeypatch):
    def lacking(storage):
        raise ImportError("Failed to import DB access module")

    monkeypatch.setattr(optuna.storages, "get_storage", lacking)
    with pytest.raises(MissingPackageError, match=r"pip install '\.\[postgresql\]'.*psycopg://"):
        open_study("postgresql://me:secret@server/trials", {})
