"""Models in files, loaded without executing code wherever possible."""

from __future__ import annotations

import io
import json
import os
import warnings
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shiftune._files import atomic_write
from shiftune.errors import DataWarning, SettingsError, StorageError

_SAFE, PICKLED = ".skops", ".pickle"
# How many times its size a file may have when it is unpacked; ours are not compressed.
_MOST_UNPACKED = 100

# Of the models that go by name; skops trusts scikit-learn's own estimators by itself. Each builds
# an object from numbers and text and runs nothing that a file could bring along.
TRUSTED = frozenset(
    {
        "collections.OrderedDict",
        "lightgbm.basic.Booster",
        "lightgbm.sklearn.LGBMClassifier",
        "lightgbm.sklearn.LGBMRegressor",
        "numpy.dtype",
        "shiftune.effects._site_effects.Terms",
        "shiftune.effects._updated.UpdatedClassifier",
        "shiftune.effects._updated.UpdatedRegressor",
        "shiftune.models._boosted.BoostedClassifier",
        "shiftune.models._boosted.BoostedRegressor",
        "shiftune.models._by_name.NumberedClasses",
        "shiftune.models._penalised.KernelClassifier",
        "shiftune.models._penalised.KernelRegressor",
        "shiftune.models._penalised.KernelValues",
        "shiftune.models._penalised.ProductsClassifier",
        "shiftune.models._penalised.ProductsRegressor",
        "shiftune.models._by_name.ColumnReader",
        "shiftune.predictor._conformal.SiteScores",
        "shiftune.predictor._ensemble.EnsembleClassifier",
        "shiftune.predictor._ensemble.EnsembleRegressor",
        "shiftune.predictor._ensemble.TableModel",
        "shiftune.ratio._overlap.ColumnSummaries",
        "shiftune.columns._column.Column",
        "shiftune.columns._formats.NumberFormat",
        "shiftune.columns._columns.Columns",
        "sklearn.calibration._CalibratedClassifier",
        "sklearn.calibration._SigmoidCalibration",
        "sklearn.compose._column_transformer._RemainderColsList",  # a list, up to version 1.8
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "sklearn.metrics._dist_metrics.EuclideanDistance64",
        "sklearn.metrics._dist_metrics.ManhattanDistance64",
        "sklearn.neighbors._ball_tree.BallTree",
        "sklearn.neighbors._kd_tree.KDTree",
        "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
        "sklearn.tree._tree.Tree",
        "xgboost.core.Booster",
        "xgboost.sklearn.XGBClassifier",
        "xgboost.sklearn.XGBRegressor",
    }
)


def save_model(model: Any, stem: str | os.PathLike[str], *, mark: str = "") -> Path:
    """Store a fitted model, and return the path of the file.

    Parameters
    ----------
    model : fitted estimator
    stem : path
        The ending is .skops or, for models that skops cannot store, .pickle (with a
        `DataWarning`, since loading such a file executes code). The other file of the two, from
        an earlier model, is removed.
    mark : str
        What `mark_of` a .skops file returns, to tell it from others; skops ignores it.
    """
    import skops.io

    stem = Path(stem)
    stem = stem.with_suffix("") if stem.suffix in (_SAFE, PICKLED) else stem
    try:
        content, ending = skops.io.dumps(model), _SAFE
        # What cannot be read back is not stored. It is our own, so it may be trusted.
        _built(content, skops.io.get_untrusted_types(data=content))
    except Exception as error:  # skops calls methods of foreign classes, which may raise anything
        import cloudpickle

        content, ending = cloudpickle.dumps(model), PICKLED
        warnings.warn(
            f"skops cannot store this model ({type(error).__name__}: {error}), so it is pickled: "
            f"loading {stem.name}{PICKLED} executes code, so load it only if you trust its origin",
            DataWarning,
            stacklevel=2,
        )
    path = stem.with_name(stem.name + ending)
    with atomic_write(path) as part:
        part.write_bytes(content)
        if ending == _SAFE:
            with zipfile.ZipFile(part, "a") as archive:
                archive.comment = mark.encode()
    other = PICKLED if ending == _SAFE else _SAFE
    stem.with_name(stem.name + other).unlink(missing_ok=True)
    return path


def mark_of(path: Path) -> str:
    """Return the mark with which a .skops file was stored."""
    with zipfile.ZipFile(path) as archive:
        return archive.comment.decode(errors="replace")


def load_model(
    path: str | os.PathLike[str],
    *,
    trusted: Collection[str] = (),
    execute_code: bool = False,
) -> Any:
    """Load a model that `shiftune tune` or `save_model` has stored.

    A .skops file is taken apart and checked before anything is built from it. Trusted are
    scikit-learn's, NumPy's and SciPy's own types, as skops lists them, and `TRUSTED`: what the
    models of ``shiftune models`` are made of. Any other type is an error that names it, and so is
    a model whose indices compiled code could not follow (XGBoost's are not checked).

    Parameters
    ----------
    path : path of a .skops or .pickle file
    trusted : names of types
        Further types to trust, such as "mypackage.MyModel". Their code may run.
    execute_code : bool
        Allow a .pickle file, whose loading executes whatever code its maker put there.

    Returns
    -------
    estimator
        From a folder of `shiftune tune` or `update`, a `TableModel`, which reads tables as
        `pandas.read_csv` returns them and warns of what differs from its training rows.
    """
    file = Path(path)
    if file.is_dir():
        raise StorageError(
            f"{file} is a folder; load the model in it, such as {file / 'model.skops'}"
        )
    if not file.is_file():
        raise StorageError(f"there is no file {file}")
    if file.suffix == _SAFE:
        return _unpacked(file, trusted)
    if file.suffix != PICKLED:
        raise StorageError(f"{file} is not a stored model, whose name ends in {_SAFE} or {PICKLED}")
    if not execute_code:
        raise SettingsError(
            f"loading {file} executes the code in it; if you trust its origin, call "
            "load_model(path, execute_code=True)"
        )
    import cloudpickle

    with _damage_explained(file), file.open("rb") as content:
        return cloudpickle.load(content)


def _unpacked(file: Path, trusted: Collection[str]) -> Any:
    import skops.io

    content = file.read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    except (zipfile.BadZipFile, ValueError) as error:
        raise StorageError(f"{file} is damaged or not a skops file ({error})") from error
    if size > _MOST_UNPACKED * len(content):
        raise StorageError(
            f"{file} would take {size:,} bytes when unpacked, more than {_MOST_UNPACKED} times its "
            "size; no model stored by shiftune does"
        )
    with _damage_explained(file):
        types = skops.io.get_untrusted_types(data=content)
    unknown = sorted(set(types) - TRUSTED - set(trusted))
    if unknown:
        raise StorageError(
            f"{file} holds types that are not trusted: {', '.join(unknown)}; if you trust the "
            f"file's origin, call load_model(path, trusted={unknown})"
        )
    with _damage_explained(file):
        return _built(content, types)


def _built(content: bytes, trusted: list[str]) -> Any:
    """Build a model; raise a ValueError where compiled code could not follow it."""
    import skops.io

    from shiftune.models._compiled import check_model, check_schema

    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        check_schema(json.loads(archive.read("schema.json")), TRUSTED)
    model = skops.io.loads(content, trusted=trusted)
    check_model(model)
    return model


@contextmanager
def _damage_explained(file: Path) -> Iterator[None]:
    """Turn what a damaged or crafted file raises into a StorageError."""
    try:
        yield
    except Exception as error:  # of skops, NumPy, or the types in the file
        raise StorageError(
            f"{file} is damaged, or of other versions of packages than are installed "
            f"({type(error).__name__}: {error})"
        ) from error
