"""The paper's patients: from folders, from a server on this machine, and the real files.

The real files are not part of the project. They are looked for in the folder that the environment
variable SHIFTUNE_DATA names, then in `shared/data` beside the checkout.
"""

from __future__ import annotations

import io
import os
import sys
import threading
import zipfile
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from reproduction.data import load_gvhd, load_parkinson, patients
from reproduction.data.formats import TELEMONITORING, VOICE
from reproduction.data.source import as_published, checksum

from shiftune.errors import ProblemError

BESIDE = Path(__file__).parents[3] / "shared" / "data"
DATA = Path(os.environ.get("SHIFTUNE_DATA", BESIDE))

UCI = ["subject#", "age", "sex", "test_time", "motor_UPDRS", "total_UPDRS", *VOICE]
LOADERS = {"parkinson": partial(load_parkinson, "patient_1"), "gvhd": partial(load_gvhd, "task_1")}
FILES = {"parkinson": "parkinsons_updrs.data", "gvhd": "MS-CS.zip"}


def as_csv(tables):
    """Write tables as UCI does: other columns, all patients in one file, 3.38e-005 for 3.38e-05."""
    order = [TELEMONITORING.index(name) for name in UCI[1:]]
    lines = [",".join(UCI)]
    for subject, table in enumerate(tables, start=1):
        for row in table[:, order].tolist():
            cells = (repr(value).replace("e-0", "e-00") for value in row)
            lines.append(",".join([str(subject), *cells]))
    return "\r\n".join([*lines, ""]).encode()


def as_array_file(table):
    file = io.BytesIO()
    np.save(file, table)
    return file.getvalue()


def as_zip(tables):
    """Pack tables as GitHub packs the authors' repository, in an order that is not numeric."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("MS-CS-0a1b/README.md", "code")
        archive.writestr("MS-CS-0a1b/dataset/other/task_0.npy", b"not this one")
        for number in reversed(range(len(tables))):
            member = f"MS-CS-0a1b/dataset/gvhd/task_{number}.npy"
            archive.writestr(member, as_array_file(tables[number]))
    return file.getvalue()


def as_folder(tables, folder, stem):
    folder.mkdir(parents=True)
    for number, table in enumerate(tables):
        np.save(folder / f"{stem}_{number}.npy", table)
    return folder


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def server(tmp_path):
    """A folder and the address at which a server on this machine offers what is in it."""
    folder = tmp_path / "server"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield folder, f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    """A cache of the test's own, and nothing of the machine's surroundings."""
    pooch = pytest.importorskip("pooch")
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)
    monkeypatch.delenv("SHIFTUNE_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path / "cache" / "shiftune"


@pytest.fixture
def fakes(monkeypatch, rng, server):
    """Twelve small patients per data set, in the folder that the loaders read."""
    parkinson = [as_published(rng.lognormal(-4, 3, (10 + number, 21)), 5) for number in range(12)]
    gvhd = [np.column_stack([rng.random((20, 7)), np.repeat([1.0, -1.0], 10)]) for _ in range(12)]
    url = server[1]
    for name, tables in (("PARKINSON", parkinson), ("GVHD", gvhd)):
        source = getattr(patients, name)
        fake = replace(source, n_sites=12, checksum=checksum(tables), url=f"{url}/{source.file}")
        monkeypatch.setattr(patients, name, fake)
    return {"parkinson": parkinson, "gvhd": gvhd}


@pytest.fixture
def offered(fakes, server):
    """What the server offers when all is well, by data set."""
    files = {"parkinson": as_csv(fakes["parkinson"]), "gvhd": as_zip(fakes["gvhd"])}
    for name, content in files.items():
        (server[0] / FILES[name]).write_bytes(content)
    return files


def stem_of(name):
    return {"parkinson": "patient", "gvhd": "task"}[name]


both = pytest.mark.parametrize("name", ["parkinson", "gvhd"])


# ---------------------------------------------------------------- what the problems hold


def test_parkinson_is_the_paper_s_problem(fakes, tmp_path):
    tables = fakes["parkinson"]
    problem = load_parkinson("patient_1", folder=as_folder(tables, tmp_path / "p", "patient"))
    assert problem.task == "regression"
    assert problem.names == [f"patient_{i}" for i in range(12) if i != 1]  # 10 after 9
    assert list(problem.columns)[:4] == ["test_time", "Jitter(%)", "Jitter(Abs)", "Jitter_RAP"]
    assert list(problem.columns)[-1] == "PPE"
    assert problem.target.name == problem.oracle.name == "patient_1"
    assert problem.target.y is None
    np.testing.assert_array_equal(problem.target.X, tables[1][:, 2:19])
    np.testing.assert_array_equal(problem.oracle.labels, tables[1][:, 20])
    np.testing.assert_array_equal(problem.sources[9].X, tables[10][:, 2:19])
    np.testing.assert_array_equal(problem.sources[9].labels, tables[10][:, 20])


def test_gvhd_is_the_paper_s_problem(fakes, tmp_path):
    tables = fakes["gvhd"]
    problem = load_gvhd("task_1", folder=as_folder(tables, tmp_path / "g", "task"))
    assert problem.task == "classification"
    assert problem.names == [f"task_{i}" for i in range(12) if i != 1]
    assert problem.classes.tolist() == [-1, 1]
    assert problem.target.y is None
    np.testing.assert_array_equal(problem.target.X, tables[1][:, :7])
    np.testing.assert_array_equal(problem.oracle.labels, tables[1][:, 7])
    np.testing.assert_array_equal(problem.sources[9].X, tables[10][:, :7])


def test_lightgbm_accepts_the_names_of_the_columns(fakes, tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    folder = as_folder(fakes["parkinson"], tmp_path / "p", "patient")
    site = load_parkinson("patient_1", folder=folder).sources[-1]
    lightgbm.LGBMRegressor(n_estimators=1, n_jobs=1, verbose=-1).fit(site.X, site.labels)


def test_a_careless_parser_s_last_digit_is_no_other_data(fakes, tmp_path):
    """As in the authors' arrays, which are one unit in the last place off UCI's text."""
    exact = fakes["parkinson"]
    careless = [np.asfortranarray(np.nextafter(table, np.inf)) for table in exact]
    one, other = (
        load_parkinson("patient_1", folder=as_folder(tables, tmp_path / name, "patient"))
        for name, tables in (("exact", exact), ("careless", careless))
    )
    assert one.fingerprint() == other.fingerprint()


@both
def test_an_unknown_patient_is_told_the_nearest(name):
    load = {"parkinson": load_parkinson, "gvhd": load_gvhd}[name]
    with pytest.raises(ProblemError, match=f"did you mean '{stem_of(name)}_12'"):
        load(f"{stem_of(name)}12")


# ---------------------------------------------------------------- where they come from


@both
def test_every_way_in_gives_the_same_problem(name, fakes, offered, tmp_path, monkeypatch, cache):
    load = LOADERS[name]
    expected = load(folder=as_folder(fakes[name], tmp_path / "data" / name, stem_of(name)))
    by_hand = tmp_path / "by hand"
    by_hand.mkdir()
    (by_hand / FILES[name]).write_bytes(offered[name])
    assert load(folder=str(by_hand)).fingerprint() == expected.fingerprint()
    assert not cache.exists()
    downloaded = load()
    assert downloaded.fingerprint() == expected.fingerprint()
    assert (cache / FILES[name]).read_bytes() == offered[name]
    monkeypatch.setenv("SHIFTUNE_DATA", str(tmp_path / "data"))
    (cache / FILES[name]).write_bytes(b"not looked at, now that there is a folder")
    assert load().fingerprint() == expected.fingerprint()


@both
def test_the_second_load_needs_no_network(name, offered, server):
    first = LOADERS[name]()
    (server[0] / FILES[name]).unlink()
    assert LOADERS[name]().fingerprint() == first.fingerprint()


@both
def test_shiftune_data_may_hold_only_the_other_data_set(name, offered, tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("SHIFTUNE_DATA", str(tmp_path / "data"))
    assert len(LOADERS[name]().sources) == 11


@both
def test_a_damaged_download_is_removed_and_tried_again(name, offered, server, cache):
    whole = offered[name]
    damaged = [
        b"<html>please sign in to this network</html>",
        b"",
        whole[: len(whole) // 2],
        whole[:-400] + bytes(200) + whole[-200:],
    ]
    for content in damaged:
        (server[0] / FILES[name]).write_bytes(content)
        with pytest.raises(ProblemError, match=f"data set '{name}', downloaded from.*removed"):
            LOADERS[name]()
        assert list(cache.iterdir()) == []
    (server[0] / FILES[name]).write_bytes(whole)
    assert len(LOADERS[name]().sources) == 11


@both
def test_a_download_with_another_content_is_refused(name, fakes, server, cache):
    other = [table.copy() for table in fakes[name]]
    other[3][2, 1] = 0.5
    content = {"parkinson": as_csv, "gvhd": as_zip}[name](other)
    (server[0] / FILES[name]).write_bytes(content)
    with pytest.raises(ProblemError, match="expected checksum") as caught:
        LOADERS[name]()
    expected = {"parkinson": patients.PARKINSON, "gvhd": patients.GVHD}[name].checksum
    assert expected in str(caught.value)
    assert checksum(other) in str(caught.value)
    assert list(cache.iterdir()) == []


@both
def test_a_changed_folder_is_refused_and_left_alone(name, fakes, tmp_path):
    other = [table.copy() for table in fakes[name]]
    other[0][0, 0] += 1
    folder = as_folder(other, tmp_path / "changed", stem_of(name))
    with pytest.raises(ProblemError, match=f"data set '{name}'.*expected checksum.*found"):
        LOADERS[name](folder=folder)
    assert len(list(folder.iterdir())) == 12


@both
def test_an_incomplete_folder_names_what_is_missing(name, fakes, tmp_path):
    stem = stem_of(name)
    folder = as_folder(fakes[name], tmp_path / "part", stem)
    (folder / f"{stem}_4.npy").unlink()
    (folder / f"{stem}_11.npy").unlink()
    with pytest.raises(ProblemError, match=rf"lacks {stem}_4\.npy and {stem}_11\.npy; .*http"):
        LOADERS[name](folder=folder)


def test_the_folder_above_is_a_likely_slip(fakes, tmp_path):
    as_folder(fakes["gvhd"], tmp_path / "data" / "gvhd", "task")
    with pytest.raises(ProblemError, match=r"and 8 more; did you mean the folder .*gvhd"):
        load_gvhd("task_1", folder=tmp_path / "data")


def test_arrays_of_objects_are_never_unpickled(fakes, tmp_path):
    folder = as_folder(fakes["gvhd"], tmp_path / "g", "task")
    np.save(folder / "task_2.npy", np.array([[object()]]), allow_pickle=True)
    with pytest.raises(ProblemError, match=r"task_2\.npy is not a NumPy array of numbers"):
        load_gvhd("task_1", folder=folder)


def test_a_csv_with_other_patients_or_words_says_so(fakes, tmp_path):
    def loading(tables, change=lambda text: text):
        (tmp_path / "parkinsons_updrs.data").write_bytes(change(as_csv(tables)))
        return partial(load_parkinson, "patient_1", folder=tmp_path)

    tables = fakes["parkinson"]
    with pytest.raises(ProblemError, match=r"subjects 1 to 12; it has 11.*no row for patient_11"):
        loading(tables[:11])()
    with pytest.raises(ProblemError, match="subjects 1 to 12; it has 13 different ones"):
        loading([*tables, tables[0]])()
    with pytest.raises(ProblemError, match=r"lacks the column\(s\) Jitter:RAP"):
        loading(tables, lambda text: text.replace(b"Jitter:RAP", b"RAP"))()
    with pytest.raises(ProblemError, match="cells that are not numbers"):
        loading(tables, lambda text: text.replace(b"\r\n1,", b"\r\n1,x", 1))()


@both
def test_without_folder_or_network_the_three_ways_are_told(name, fakes, monkeypatch, cache):
    constant = name.upper()
    nowhere = replace(getattr(patients, constant), url="http://127.0.0.1:9/nothing")
    monkeypatch.setattr(patients, constant, nowhere)
    ways = r"folder=.*SHIFTUNE_DATA.*network, to download http://127\.0\.0\.1:9/nothing"
    with pytest.raises(ProblemError, match=f"the download failed.*{ways}"):
        LOADERS[name]()
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ProblemError, match=rf"pip install '\.\[reproduction\]'.*{ways}"):
        LOADERS[name]()
    assert not cache.exists() or list(cache.iterdir()) == []


def test_a_file_that_the_server_lacks(fakes):
    with pytest.raises(ProblemError, match=r"the download failed \(404.*three ways"):
        load_gvhd("task_1")


def test_folders_that_do_not_exist(tmp_path, monkeypatch):
    with pytest.raises(ProblemError, match=r"no folder .*nowhere"):
        load_gvhd(folder=tmp_path / "nowhere")
    monkeypatch.setenv("SHIFTUNE_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(ProblemError, match=r"SHIFTUNE_DATA names .*nowhere"):
        load_gvhd()


# ---------------------------------------------------------------- the real files


def real(name):
    missing = not (DATA / name).is_dir()
    return pytest.mark.skipif(missing, reason=f"no real {name} data (set SHIFTUNE_DATA)")


@real("parkinson")
def test_the_real_parkinson_data(tmp_path):
    problem = load_parkinson(folder=DATA / "parkinson")
    assert repr(problem.target) == "<Site 'patient_28': 168 rows, no labels>"
    assert len(problem.sources) == 41
    assert len(problem.columns) == 17
    assert sum(map(len, (problem.target, *problem.sources))) == 5875
    raw = [np.load(DATA / "parkinson" / f"patient_{i}.npy") for i in range(42)]
    np.testing.assert_allclose(problem.target.X, raw[28][:, 2:19], rtol=1e-15)
    np.testing.assert_allclose(problem.oracle.labels, raw[28][:, 20], rtol=1e-15)
    # As repr writes the authors' floats, and as UCI wrote the same numbers.
    for folder, tables in (("repr", raw), ("uci", [as_published(t, 10) for t in raw])):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "parkinsons_updrs.data").write_bytes(as_csv(tables))
        from_text = load_parkinson(folder=tmp_path / folder)
        assert from_text.fingerprint() == problem.fingerprint()
        np.testing.assert_array_equal(from_text.oracle.labels, problem.oracle.labels)


@real("gvhd")
def test_the_real_gvhd_data(tmp_path):
    problem = load_gvhd(folder=DATA / "gvhd")
    assert repr(problem.target) == "<Site 'task_0': 1000 rows, no labels>"
    assert len(problem.sources) == 29
    assert len(problem.columns) == 7
    assert problem.classes.tolist() == [-1, 1]
    raw = [np.load(DATA / "gvhd" / f"task_{i}.npy") for i in range(30)]
    np.testing.assert_array_equal(problem.target.X, raw[0][:, :7])
    (tmp_path / "MS-CS.zip").write_bytes(as_zip(raw))
    assert load_gvhd(folder=tmp_path).fingerprint() == problem.fingerprint()
