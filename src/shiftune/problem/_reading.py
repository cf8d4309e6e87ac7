"""Sites as the user gave them: stacked rows are divided; names, labels, weights, subjects checked.

`align` checks the columns of all sites, and makes them alike. `ShiftProblem` puts them together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain, combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shiftune._names import Task
from shiftune._wording import alike, check_choice, count, listed, number
from shiftune.columns._column import ColumnKind, Option, flaw_of, kind_of, types_in, unusable_types
from shiftune.errors import DataError, SettingsError
from shiftune.problem._site import (
    MOST_CLASSES,
    Features,
    Site,
    distinct_labels,
    frozen,
    read_only,
    rows_of,
    task_of,
)

Codes = NDArray[np.intp]
Floats = NDArray[np.float64]

# Values of a column; variances need their squares.
_LARGEST = 1e150
# Sums of squared weights, and ratios of two, are numbers.
_LEAST_WEIGHT, _MOST_WEIGHT = 1e-60, 1e60
# Numbers of a sparse matrix that is read as an array, 800 MB.
_MOST_DENSE = 1e8
# A site with fewer subjects keeps about one for validation.
_FEW_IDS = 10


class GivenSite(NamedTuple):
    """Rows of a site, or of several, before any check.

    `rows` are their numbers in the user's table, `subject` the ids of rows that belong together.
    """

    name: str
    X: Any
    y: Any = None
    rows: NDArray[np.intp] | None = None
    subject: Any = None
    sample_weight: Any = None

    @classmethod
    def of_tuple(cls, name: str, parts: Any) -> GivenSite:
        """Return the rows of (X, y) or (X, y, sample_weight)."""
        if not isinstance(parts, tuple | list) or len(parts) not in (2, 3):
            raise SettingsError(f"site {name!r} must be a pair (X, y), or (X, y, sample_weight)")
        return cls(name, parts[0], parts[1], sample_weight=parts[2] if len(parts) > 2 else None)

    def in_pandas(self) -> GivenSite:
        """Return the same rows, without tables of other libraries and sparse matrices."""
        X = as_pandas(self.X, f"site {self.name!r}" if self.name else "X")
        y, subject, w = map(as_pandas, (self.y, self.subject, self.sample_weight))
        return self._replace(X=X, y=y, subject=subject, sample_weight=w)

    def take(self, which: NDArray[Any], name: str) -> GivenSite:
        """Return the rows at these positions, or where a mask is true, with another name."""
        X, y, subject, w = (  # frozen, so that none is copied again
            None if values is None else frozen(rows_of(values, which))
            for values in (self.X, self.y, self.subject, self.sample_weight)
        )
        rows = np.arange(len(self.X)) if self.rows is None else self.rows
        return GivenSite(name, X, y, rows[which], subject, w)


def split_by_site(stacked: GivenSite, groups: Any) -> list[GivenSite]:
    """Return the rows of every site; `groups` has the site of every row, shape (n,)."""
    stacked, groups = stacked.in_pandas(), as_pandas(groups)
    if stacked.y is None or groups is None:
        raise SettingsError("y and groups are needed, one entry per row of X")
    where, n = np.asarray(groups), len(stacked.X)
    shapes = {"groups": where.shape, "y": np.shape(stacked.y)[:1]}
    for what in ("subject", "sample_weight"):
        if (values := getattr(stacked, what)) is not None:
            shapes[what] = np.shape(values)
    for what, shape in shapes.items():
        if shape != (n,):
            raise SettingsError(
                f"X has {n} rows, and {what} has the shape {shape}; {what} must have shape (n,), "
                "one entry per row"
            )
    codes, names = site_names(pd.Series(where, dtype=where.dtype), "groups")
    order = np.argsort(codes, kind="stable")
    places = np.split(order, np.cumsum(np.bincount(codes))[:-1])
    return [stacked.take(rows, name) for name, rows in zip(names, places, strict=False)]


def site_names(where: pd.Series, what: str) -> tuple[Codes, NDArray[np.object_]]:
    """Return the number of every row's site, shape (n,), and the names of the sites, as text.

    Missing sites, and a site written both as text and as a number, are errors.
    """
    if missing := int(where.isna().sum()):
        raise DataError(
            f"{what} is empty in {missing} row(s) (NA, None and null count as empty); fill it, or "
            "leave those rows out"
        )
    codes, values = pd.factorize(where)
    texts = [str(value) for value in values]
    _check_ends(texts)  # before the names are mapped: pandas 2 takes such names for the same
    if doubled := sorted(text for text, n in Counter(texts).items() if n > 1):
        raise DataError(
            f"the sites {doubled} occur both as text and as number; write them in one way"
        )
    return codes, np.array(texts, dtype=object)


def _check_ends(names: Iterable[str]) -> None:
    """Refuse names that NumPy cuts: an array of text has no null characters at the ends."""
    if cut := [name for name in names if name.endswith("\0")]:
        raise DataError(f"the site name {cut[0]!r} ends with a null character; rename the site")


def check_names(sources: Sequence[str], target: str) -> None:
    """Refuse sites with the same name, names that NumPy cuts, and a problem without sources."""
    if not sources:
        raise DataError(
            f"there are no sources; at least one labelled site besides the target {target!r} is "
            "needed"
        )
    _check_ends((target, *sources))
    if doubled := sorted(name for name, n in Counter(sources).items() if n > 1):
        raise DataError(f"the site name(s) {listed(doubled)} occur twice; rename one of each pair")
    if target in sources:
        raise DataError(
            f"{target!r} is the target and cannot also be a source; rename the source, or give the "
            "target's labelled rows as labelled_target"
        )


def check_roles(
    df: pd.DataFrame, roles: Mapping[str, Hashable], others: Iterable[Hashable] = ()
) -> None:
    """Check that the columns exist, each once, and that no column has two roles."""
    check_columns(df.columns, "the table")
    for name in (*roles.values(), *others):
        check_choice(name, df.columns, "column", DataError)
    for one, other in combinations(roles, 2):
        if roles[one] == roles[other]:
            raise SettingsError(
                f"{one} and {other} are both {roles[one]!r}; they are different columns"
            )
    check_types(df, roles)


def check_types(df: pd.DataFrame, roles: Mapping[str, Hashable]) -> None:
    """Refuse lists, mappings and bytes as sites, labels, subjects and weights."""
    for role, name in roles.items():
        if name in df and (kinds := unusable_types(df[name])):
            raise DataError(
                f"the {role.replace('_', ' ')} {name!r} holds values of type {', '.join(kinds)}; "
                "give a column of numbers or text"
            )


def about_unlabelled(
    label: Hashable, missing: Mapping[Any, int], rows: Mapping[Any, int], how: str
) -> list[str]:
    """Note, or refuse, rows without a label, from their numbers by site, and those of all rows."""
    if not missing:
        return []
    if how == "error":
        name, n = next(iter(missing.items()))
        more = f" (and in {len(missing) - 1} more site(s))" if len(missing) > 1 else ""
        none = any(rows[site] == n for site, n in missing.items())
        targets = (
            ", or tune for sites without any label, too (target='unlabelled', --target unlabelled)"
            * none
        )
        raise DataError(
            f"site {str(name)!r}: the label {str(label)!r} is missing in {n} of "
            f"{rows[name]} rows{more}; fill it in, or leave those rows out "
            f"(missing_labels='drop', --drop-unlabelled on the command line){targets}"
        )
    total = sum(missing.values())
    words, verb = ("1 row", "is") if total == 1 else (f"{total} rows", "are")
    sites = listed([f"{n} of {str(name)!r}" for name, n in missing.items()], 6, quoted=False)
    return [f"{words} without label {verb} left out: {sites}"]


def decide_task(
    labels: Mapping[str, NDArray[Any]], task: Task | None, label: str, option: Option
) -> tuple[Task, list[str]]:
    """Decide between classes and quantities by the labels of all sites, unless the user did."""
    texts = [site for site, y in labels.items() if y.dtype.kind == "O"]
    numbers = [site for site in labels if site not in texts]
    if texts and numbers:
        raise DataError(
            f"the label {label!r} is text in site {texts[0]!r} but a number in site "
            f"{numbers[0]!r}; write it in one way in all sites"
        )
    decided = task or task_of(labels.values())
    if decided == "regression" and texts:
        raise DataError(
            f"the label {label!r} is text, which cannot be a regression label; convert it to "
            "numbers, or use task='classification'"
        )
    values = distinct_labels(labels.values())
    if task or decided == "regression" or values.dtype.kind not in "iuf" or len(values) < 3:
        return decided, []
    return decided, [
        f"the label {label!r} is read as {len(values)} classes; if it is a quantity, use "
        f"{option('task', 'regression')}"
    ]


def check_classes(sources: Sequence[Site], few: NDArray[Any] | None, label: str) -> None:
    """Refuse a single class, quantities, and classes of target labels that no source has.

    Quantities are numbers with fractions, which scikit-learn's classifiers refuse, and more than
    20 whole numbers with less than three rows each, or other ones than 1, 2, 3, ... without gaps.
    """
    seen = distinct_labels(site.labels for site in sources)
    if seen.dtype.kind in "iuf":
        gaps = seen[0] not in (0, 1) or seen[-1] != len(seen) - 1 + seen[0]
        rare = len(seen) > sum(map(len, sources)) / 3
        many = len(seen) > MOST_CLASSES and (gaps or rare)
        if many or np.any(seen != np.round(seen)):
            why = "too many" if many else "with fractions, which do not fit"
            raise DataError(
                f"the label{label and f' {label!r}'} has {count(len(seen), 'different number')}, "
                f"{why} for classes; use task='regression' (--task regression), or write classes "
                "as text: class 7, not 7"
            )
    if len(seen) == 1:
        raise DataError(
            f"all labels of all sources are {str(seen[0])!r}; a classifier needs at least two "
            "classes"
        )
    if few is not None and (unseen := sorted(set(few.tolist()) - set(seen.tolist()))):
        pairs = [(name, alike(str(name), map(str, seen))) for name in unseen]
        near = ", ".join(f"{right[0]!r} for {str(name)!r}?" for name, right in pairs if right)
        raise DataError(
            f"the labelled target rows have the class(es) {unseen}, which no source has; a model "
            "trained on the sources can never predict them: correct the spelling"
            f"{near and f' ({near})'}, leave those labels empty, or add a source with such rows"
        )


def weights_by_site(
    target: GivenSite, sources: Sequence[GivenSite], few: Sequence[GivenSite]
) -> tuple[dict[str, Floats], list[str]]:
    """Check the weights of all sites; return them by site, and notes.

    Sources need weights if any site has them; rows of the target may have none, and count once.
    Empty where no site has weights, or all are 1.
    """
    sites, needed = [target, *sources, *few], {site.name for site in sources}
    if all(site.sample_weight is None for site in sites):
        return {}, []
    weights: dict[str, Floats] = {}
    for site in sites:
        none = np.full(len(site.X), np.nan)
        try:
            weights_of_site = pd.Series(none if site.sample_weight is None else site.sample_weight)
            values = weights_of_site.to_numpy(dtype=float, na_value=np.nan)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"site {site.name!r}: the weights of rows are not numbers ({error})"
            ) from error
        if site.name not in needed and np.isnan(values).all():
            values = np.ones(len(values))
        bad = np.flatnonzero(~((values >= _LEAST_WEIGHT) & (values <= _MOST_WEIGHT)))
        if len(bad):
            value = values[bad[0]]
            shown = "missing" if np.isnan(value) else number(float(value))
            row = bad[0] if site.rows is None else site.rows[bad[0]]
            more = f" (and {len(bad) - 1} more there)" if len(bad) > 1 else ""
            raise DataError(
                f"site {site.name!r}: the weight of row {row} is {shown}{more}; leave the row out, "
                "or give it a weight above 0 (at least 1e-60, at most 1e60)"
            )
        weights[site.name] = values
    least, most = (float(f([f(w) for w in weights.values()])) for f in (np.min, np.max))
    if least == most == 1:
        return {}, ["every row has the weight 1, so weights change nothing"]
    return weights, [
        f"rows have weights from {number(least)} to {number(most)}: in training, in the risk at "
        "every site, and in metrics"
    ]


def subject_codes(
    target: GivenSite, sources: Sequence[GivenSite], few: Sequence[GivenSite]
) -> tuple[dict[str, Codes], list[str]]:
    """Number the subjects of all sites; return the codes of their rows by site, and notes.

    The same id at two sites is the same subject; a row without an id has a code of its own. Empty
    where no site has ids, or no two labelled rows belong together.
    """
    sites = sorted([target, *sources, *few], key=lambda site: site.name)
    if all(site.subject is None for site in sites):
        return {}, []
    ids = {site.name: _ids(site) for site in sites}
    everyone = pd.concat(ids.values(), ignore_index=True)
    if everyone.isna().all():
        name = next((s.subject.name for s in sites if hasattr(s.subject, "name")), "subject")
        raise DataError(
            f"the subject ids, {str(name)!r}, are empty in all rows; name the column with the ids"
        )
    codes = pd.factorize(everyone, sort=True)[0].astype(np.intp)
    missing = codes < 0
    codes[missing] = codes.max() + 1 + np.arange(missing.sum())
    ends = np.cumsum([len(rows) for rows in ids.values()])[:-1]
    by_site = dict(zip(ids, np.split(codes, ends), strict=True))
    labelled = [site.name for site in (*sources, *few)]
    if pd.Index(np.concatenate([by_site[name] for name in labelled])).is_unique:
        return {}, ["every labelled row has a subject of its own, so subjects change nothing"]
    notes = []
    if empty := sum(int(ids[name].isna().sum()) for name in labelled):
        rows = count(empty, "labelled row")
        notes.append(f"{rows} without a subject id: each is a subject of its own")
    at_site = {site.name: np.unique(by_site[site.name]) for site in sources}
    groups, at_sites = np.unique(np.concatenate([*at_site.values()]), return_counts=True)
    total = sum(len(by_site[name]) for name in at_site)
    notes.append(
        f"the {total} rows of the sources form {len(groups)} subjects, which are never divided"
    )
    if shared := int((at_sites > 1).sum()):
        notes.append(
            f"{count(shared, 'subject')} at several sources: no model trains on a subject that it "
            "predicts; if ids are numbered anew at every site, make them different: B-1, not 1"
        )
    if common := len(np.intersect1d(groups, by_site[target.name])):
        notes.append(
            f"{count(common, 'subject')} of the target {target.name!r} also at sources, where the "
            "final model learns from them; the estimated risk is that of new subjects"
        )
    if rough := [n for n, codes in at_site.items() if len(codes) < _FEW_IDS <= len(by_site[n])]:
        notes.append(
            f"fewer than {_FEW_IDS} subjects at {listed(rough)}: their estimates are rough"
        )
    return by_site, notes


def _ids(site: GivenSite) -> pd.Series:
    """Return ids as text; whole numbers are the same with and without a decimal point."""
    if site.subject is None:
        return pd.Series([None] * len(site.X), dtype="string")
    values = pd.Series(site.subject).reset_index(drop=True).infer_objects()
    if values.dtype.kind == "f" and (values.dropna() % 1 == 0).all():
        values = values.astype("Int64")
    return values.astype("string")


# ------------------------------------------------------------ columns of sites


def plain_numbers(X: pd.DataFrame) -> set[Any]:
    """Return the names of columns with a NumPy number type, which can be checked all at once."""
    kinds = zip(X.columns, X.dtypes, strict=True)
    return {name for name, dtype in kinds if isinstance(dtype, np.dtype) and dtype.kind in "iuf"}


def as_pandas(table: Any, where: str = "the table") -> Any:
    """Return a table or a column of polars, pyarrow and the like as one of pandas.

    What can only become an array becomes one, up to a size, such as a sparse matrix; all else stays
    as it is. Lazy frames are refused.
    """
    library = type(table).__module__.split(".")[0]
    for first, rows, write in (
        ("npartitions", "compute", "to_parquet(folder)"),  # Dask
        ("collect_schema", "collect", "sink_parquet(path)"),  # polars
    ):
        if hasattr(table, first) and hasattr(table, rows):
            raise SettingsError(
                f"a lazy frame of {library} has no rows yet: frame.{rows}() has them; from_large "
                f"reads what frame.{write} writes in parts"
            )
    if hasattr(table, "to_pandas"):
        try:
            return table.to_pandas()
        except (TypeError, ValueError, NotImplementedError) as error:  # types that pandas lacks
            raise DataError(
                f"the {library} {type(table).__name__} cannot be turned into one of pandas "
                f"({error}); leave out columns that are neither numbers, text, booleans nor dates"
            ) from error
    if hasattr(table, "toarray"):  # a sparse matrix
        if np.prod(table.shape, dtype=float) > _MOST_DENSE:
            raise DataError(
                f"{where}: a sparse matrix of shape {table.shape} is too large to be read as an "
                f"array (more than {_MOST_DENSE:.0e} numbers); reduce the columns first, for "
                "example with TruncatedSVD"
            )
        return table.toarray()
    only_array = hasattr(table, "__array__") and not hasattr(table, "shape")
    return np.asarray(table) if only_array else table


def check_columns(columns: pd.Index, where: str) -> None:
    """Refuse column names that occur more than once, or that end for others before their end."""
    names = pd.Index([str(name) for name in columns], dtype=object)
    if doubled := columns[names.duplicated()].unique().to_list():
        raise DataError(f"{where}: the column names {doubled} occur more than once; rename them")
    if cut := [name for name in columns if isinstance(name, str) and "\0" in name]:
        raise DataError(f"{where}: the column names {cut} have a NUL character; rename them")


def align(tables: Mapping[str, Any]) -> dict[str, Features]:
    """Check the rows of all sites; give them the same columns, in one order and of one kind.

    They become data frames, or float arrays of shape (n, d). Arrays of objects or text become
    frames, so that their columns can differ in kind; float32 stays float32. The first site sets
    the order of columns. Nothing is copied that nobody can write to.
    """
    checked = {site: _as_table(X, site) for site, X in tables.items()}
    frames = {site: X for site, X in checked.items() if isinstance(X, pd.DataFrame)}
    arrays = {site: X for site, X in checked.items() if not isinstance(X, pd.DataFrame)}
    if frames and arrays:
        raise DataError(
            f"site {next(iter(frames))!r} is a data frame but site {next(iter(arrays))!r} is an "
            "array; give all sites in the same form"
        )
    first = next(iter(checked))
    for site, X in arrays.items():
        if X.shape[1] != arrays[first].shape[1]:
            raise DataError(
                f"site {site!r} has {X.shape[1]} columns but site {first!r} has "
                f"{arrays[first].shape[1]}; all sites and the target need the same columns"
            )
    if arrays:
        dtype = np.result_type(*(X.dtype for X in arrays.values()))
        return {site: X.astype(dtype, copy=False) for site, X in arrays.items()}
    expected = frames[first].columns
    for site, frame in frames.items():
        missing = expected.difference(frame.columns, sort=False).to_list()
        extra = frame.columns.difference(expected, sort=False).to_list()
        if missing or extra:
            raise DataError(
                f"sites {first!r} and {site!r} have different columns: {site!r} lacks "
                f"{missing or 'none'} and has {extra or 'none'} in addition; all sites and the "
                "target need the same columns"
            )
    frames = {site: X.reindex(columns=expected) for site, X in frames.items()}
    return dict(of_one_kind(frames))


def _as_table(X: Any, site: str) -> Features:
    """Return the rows of a site as a frame or a float array, with columns that can be features."""
    table = as_pandas(X, f"site {site!r}")
    if isinstance(X, np.ma.MaskedArray):
        table = np.ma.filled(X.astype(float), np.nan)
    if not isinstance(table, pd.DataFrame):
        table = np.asarray(table)
        if table.ndim != 2:
            raise DataError(
                f"site {site!r}: the rows must form a table of shape (n, d), got shape "
                f"{table.shape}; a single column is X.reshape(-1, 1)"
            )
        if table.dtype.kind == "c":
            raise DataError(
                f"site {site!r}: complex numbers cannot be features; use X.real or X.imag"
            )
    if table.shape[1] == 0:
        raise DataError(f"site {site!r} has no feature columns; at least one is needed")
    if isinstance(table, np.ndarray) and table.dtype.kind in "biuf":
        numbers = read_only(table, np.float32 if table.dtype == np.float32 else float)
        _check_sizes(numbers, range(table.shape[1]), site)
        return numbers
    frame = pd.DataFrame(table).infer_objects()
    check_columns(frame.columns, f"site {site!r}")
    plain = plain_numbers(frame)
    for name in [name for name in frame.columns if name not in plain]:
        column = frame[name]
        if flaw := flaw_of(column):
            raise DataError(f"site {site!r}: column {name!r} {flaw}")
        if column.dtype == object and str in types_in(column):
            # Text among numbers makes the whole column text, in any part of the rows.
            frame[name] = column.where(column.isna(), column.astype(str))
        elif kind_of(column) == "number":
            plain.add(name)
    numeric = frame.loc[:, [name in plain for name in frame.columns]]
    _check_sizes(numeric.to_numpy(dtype=float, na_value=np.nan), list(numeric.columns), site)
    return frame


def _check_sizes(numbers: Floats, names: Sequence[Any], site: str) -> None:
    """Refuse infinite numbers, and those whose squares are."""
    with np.errstate(invalid="ignore"):
        low, high = (f.reduce(numbers, axis=0, initial=0) for f in (np.fmin, np.fmax))
    largest = np.maximum(-low, high).astype(float)  # 1e150 is beyond float32
    for c in np.flatnonzero(largest > _LARGEST).tolist():
        flaw = (
            f"has values of up to {largest[c]:.0e}, too large to compute with; divide the column, "
            "or replace them with NaN (missing)"
        )
        if infinite := int(np.isinf(numbers[:, c]).sum()):
            flaw = (
                f"has {infinite} infinite value(s); replace them with NaN (missing) or with the "
                "largest value that makes sense"
            )
        raise DataError(f"site {site!r}: column {names[c]!r} {flaw}")


def of_one_kind(frames: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Give tables the same categories, and columns without a value the type of the others.

    Two sites with different kinds of values are an error that names both.
    """
    plain = set.intersection(*map(plain_numbers, frames.values()))
    first = next(iter(frames.values()))
    for name in [name for name in first.columns if name not in plain]:
        columns = {site: frame[name] for site, frame in frames.items()}
        dtypes = [column.dtype for column in columns.values()]
        if all(dtype == dtypes[0] for dtype in dtypes):
            continue
        by_kind: dict[ColumnKind, str] = {}
        for site, column in columns.items():
            if column.notna().any():
                by_kind.setdefault(kind_of(column), site)
        if len(by_kind) > 1:
            (kind_a, site_a), (kind_b, site_b) = list(by_kind.items())[:2]
            words = {"number": "numbers", "category": "categories or text", "date": "dates"}
            raise DataError(
                f"column {name!r} holds {words[kind_a]} in site {site_a!r} but "
                f"{words[kind_b]} in site {site_b!r}; convert it to one kind in all sites"
            )
        kind = next(iter(by_kind), kind_of(first[name]))
        if any(isinstance(dtype, pd.CategoricalDtype) for dtype in dtypes):
            levels = [
                c.cat.categories if hasattr(c, "cat") else c.dropna().unique()
                for c in columns.values()
            ]
            joined = pd.CategoricalDtype(list(dict.fromkeys(chain.from_iterable(levels))))
            for site, column in columns.items():
                frames[site][name] = column.astype(joined)
            continue
        like = next(column.dtype for column in columns.values() if kind_of(column) == kind)
        dtype = {"number": float, "category": object}.get(kind, like)
        for site, column in columns.items():
            if kind_of(column) != kind:  # it is empty
                empty = [None] * len(column)
                frames[site][name] = pd.Series(empty, column.index, dtype=dtype)
    return frames
