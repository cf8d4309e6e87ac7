"""ShiftProblem: labelled sources and an unlabelled target, checked.

All constructors (frames, arrays, lists of sites, skada's form, files) end in `_of_sites`, which
checks the sites, gives them the same columns and decides the task.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from shiftune._names import Task
from shiftune._wording import check_choice, count, listed
from shiftune.columns import Column, Columns
from shiftune.columns._column import Option, python_option
from shiftune.columns._columns import NewRows
from shiftune.errors import DataError, DataWarning, SettingsError
from shiftune.problem._large import Sample, Sampled, read_sampled
from shiftune.problem._reading import (
    GivenSite,
    align,
    as_pandas,
    check_classes,
    check_columns,
    check_names,
    decide_task,
    split_by_site,
    subject_codes,
    weights_by_site,
)
from shiftune.problem._site import (
    Features,
    Site,
    as_labels,
    distinct_labels,
    sites_have,
    weights_of,
)
from shiftune.problem._split import PAPER_SHARES, Split, split_sites
from shiftune.problem._table import TableSettings, TargetLabels, read_table, with_target
from shiftune.tables import SiteFiles

if TYPE_CHECKING:
    from shiftune.ratio._density import DensityRatio

# A site with fewer rows than this keeps about one row for validation.
_SMALL_SITE = 10

_FEW = "labelled rows of the target"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ShiftProblem:
    """Problem of labelled sources and a target without labels; immutable.

    `from_frame`, `from_large`, `from_arrays`, `from_sites` and `from_sample_domain` copy and check
    their input.

    Attributes
    ----------
    sources : tuple of Site
        The labelled sites, at least one.
    target : Site
        The rows of the site to tune for, without labels; of several, the rows of all together.
    target_rows : dict from names to arrays
        Where `target` holds the rows of several sites: their positions there, by site.
    labelled_target : Site or None
        A few labelled rows of the target: an additional source, whose density ratio is 1.
    oracle : Site or None
        The target with all its labels, for experiments only: the search never reads it.
    task : {"classification", "regression"}
    columns : Columns
        The columns that are features, by name: kind, format, levels, range, remark; and those that
        were left out.
    notes : tuple of str
        Decisions made and oddities found while reading the data.
    label : str
        Name of the label's column; empty where it is unknown.
    sample : Sample or None
        Rows of the sites in the table that these were drawn from; None if all were read.

    Examples
    --------
    >>> df = pd.DataFrame({"hospital": list("BBBCCCAA"), "age": [60, 71, 55, 30, 41, 38, 45, 52],
    ...                    "ill": [1, 1, 0, 0, 1, 0, None, None]})
    >>> ShiftProblem.from_frame(df, site="hospital", label="ill", target="A")
    ShiftProblem: classification, 1 column
      target  'A': 2 rows without labels
      sources 'B': 3 rows and 'C': 3 rows
      note    sites 'B' and 'C' have fewer than 10 rows: their own estimates will be rough
    """

    sources: tuple[Site, ...]
    target: Site
    labelled_target: Site | None = None
    oracle: Site | None = None
    task: Task = "regression"
    columns: Columns = field(default_factory=lambda: Columns({}))
    notes: tuple[str, ...] = field(default=())
    label: str = ""
    sample: Sample | None = None
    target_rows: Mapping[str, NDArray[np.intp]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_names([*self.names, *self.target_rows], self.target.name)

    @classmethod
    def from_frame(
        cls,
        df: pd.DataFrame,
        *,
        site: Hashable,
        label: Hashable,
        target: Any,
        subject: Hashable | None = None,
        sample_weight: Hashable | None = None,
        features: Sequence[Hashable] | None = None,
        keep: Sequence[Hashable] = (),
        drop: Sequence[Hashable] = (),
        ids: Sequence[Hashable] = (),
        dates: str | Mapping[Any, str] | None = None,
        missing: Mapping[Any, Any] | None = None,
        columns: Literal["read", "as given"] = "read",
        target_labels: TargetLabels = "hide",
        missing_labels: Literal["error", "drop"] = "error",
        target_name: str = "target",
        task: Task | None = None,
    ) -> Self:
        """Read a table with a site column, as the command line reads a file.

        Dates and numbers written as text are read; identifiers, row numbers, constants and copies
        of the site are left out. All decisions are in `columns`, in `notes` and in one warning.

        Parameters
        ----------
        df : DataFrame
            One row per case, all sites together.
        site, label : column names
        target : site name, list of site names, "unlabelled", or DataFrame
            The site to tune for; or several (`at` has the problem of each); or all sites without
            any label; or the rows of the site as a table of their own.
        subject : column name, optional
            Rows with the same value belong together, such as visits of a patient: they are never
            divided between training and validation, and intervals count subjects instead of rows. A
            row without a value is a subject of its own.
        sample_weight : column name, optional
            Numbers above 0: a row of weight 2 counts as two rows of its site, in training (the
            model's `sample_weight`), in the site's mean loss and in metrics. Standard errors
            count rows, not weights. Rows of the target count once each if none has a weight.
        features : list of column names, optional
            The columns to use. Default: all columns but `site`, `label`, `subject`,
            `sample_weight` and those that are left out.
        keep, drop, ids : lists of column names
            Columns that are used in any case, that never are, and that identify cases.
        dates : str, or mapping from column names to str, optional
            Format of dates written as text, to try first (`pandas.to_datetime`): "%d/%m/%Y".
        missing : mapping from column names to values or lists of values, optional
            What stands for missing values: ``{"age": 999}``.
        columns : {"read", "as given"}
            "as given" decides nothing: labels and columns stay as they are.
        target_labels : {"hide", "use", "oracle"}
            Labels of the target are hidden (the default), used as a few labelled rows, or kept
            aside as the truth of an experiment.
        missing_labels : {"error", "drop"}
            Whether source rows without a label are an error or left out.
        target_name : str
            Name of a target that is given as a table of its own.
        task : {"classification", "regression"}, optional
            Default: decided by the labels. Text and booleans are classes, and so are whole
            numbers with at most 20 distinct values.
        """
        df, target = as_pandas(df), as_pandas(target)
        if not isinstance(df, pd.DataFrame):
            raise SettingsError(f"from_frame needs a pandas DataFrame, got {type(df).__name__}")
        settings = TableSettings(
            site=site,
            target=target_name if isinstance(target, pd.DataFrame) else target,
            label=label,
            subject=subject,
            sample_weight=sample_weight,
            task=task,
            features=features,
            keep=keep,
            drop=drop,
            ids=ids,
            dates=dates,
            missing=missing,
            columns=columns,
            target_labels=target_labels,
            missing_labels=missing_labels,
        )
        return cls.of_table(df, settings, target=target)

    @classmethod
    def of_table(
        cls,
        df: pd.DataFrame,
        settings: TableSettings,
        notes: Sequence[str] = (),
        *,
        target: Any = None,
        sampled: Sampled | None = None,
        warn: bool = True,
    ) -> Self:
        """Read a table of all sites, or of all sources beside a table of the `target`."""
        sampled = sampled or Sampled(df)
        # rows are numbered in the table that they came from
        numbers = np.arange(len(df)) if sampled.rows is None else sampled.rows
        if isinstance(target, pd.DataFrame):
            numbers = np.append(np.arange(len(target)), numbers)
            df = with_target(df, target, settings)
        table = read_table(df, settings, notes)
        sites = (table.target, *table.sources)
        first, *sources = (site._replace(rows=numbers[site.rows]) for site in sites)
        if warn:
            if decided := table.columns.surprises if table.columns else []:
                how = "(keep=, drop= and dates= overrule this, columns='as given' decides nothing)"
                decided[-1] += f" {how}"
            if decided := [*table.notes, *decided]:
                warnings.warn("\n".join(decided), DataWarning, stacklevel=3)
        problem = cls._of_sites(
            sources,
            first,
            columns=table.columns,
            notes=[*sampled.notes, *table.notes, *table.quiet],
            use_labels=settings.target_labels == "use",
            task=table.task,
            label="" if settings.label is None else str(settings.label),
            option=settings.option,
            stacklevel=4 if warn else 0,
        )
        problem = replace(problem, target_rows=table.targets)
        # labelled rows that were not drawn may not be typical of the target
        typical = ~np.isin(problem.target.rows, numbers[np.flatnonzero(sampled.added)])
        rows = problem.target if typical.all() else problem.target.take(np.flatnonzero(typical))
        return replace(problem, target=rows, sample=sampled.sample)

    @classmethod
    def from_large(
        cls,
        data: Any,
        *,
        site: Hashable,
        label: Hashable,
        target: Any,
        most_rows: int = 1_000_000,
        random_state: int = 0,
        **options: Any,
    ) -> Self:
        """Read a table that may not fit in memory, in parts.

        Parameters
        ----------
        data : path of a file, folder or pattern (``"visits/*.csv"``), or DataFrame
            CSV, Parquet, Feather and JSON lines are read in parts. Other tables first become such
            files: ``dask_frame.to_parquet(folder)``, ``lazy_frame.sink_parquet(path)``.
        site, label, target, **options
            See `from_frame`.
        most_rows : int
            Maximum rows to read. Larger tables are sampled: small sites are kept whole, the others
            equally, and a note states what that costs. With ``target_labels="use"`` all labelled
            rows of the target are read, too; with ``missing_labels="drop"`` rows of sources are
            drawn from those with a label. Larger tables with a `subject` are an error.
        random_state : int
            Draws the rows.
        """
        data, target, decimal = as_pandas(data), as_pandas(target), "."
        if isinstance(data, str | os.PathLike):
            data = SiteFiles(Path(data), site=str(site))
            decimal = data.form.decimal
        elif not isinstance(data, pd.DataFrame):
            raise SettingsError(f"data must be a path or a DataFrame, got {type(data).__name__}")
        name, apart = options.pop("target_name", "target"), isinstance(target, pd.DataFrame)
        roles: dict[str, Any] = {"site": site, "label": label, "target": None if apart else target}
        settings = TableSettings(**roles, decimal=decimal, **options)
        sampled = read_sampled(data, settings, most_rows, random_state)
        settings = replace(settings, target=name) if apart else settings
        return cls.of_table(sampled.table, settings, target=target, sampled=sampled)

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        y: ArrayLike,
        groups: ArrayLike,
        X_target: Any,
        *,
        subject: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        labelled_target: tuple[Any, ...] | None = None,
        oracle_labels: ArrayLike | None = None,
        target_name: str = "target",
        task: Task | None = None,
    ) -> Self:
        """Read the rows of all sources stacked, with the site of every row in `groups`.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
        y, groups : arrays of shape (n,)
        X_target : array or DataFrame of shape (n_T, d)
        subject : array of shape (n,), optional
            Ids of rows that belong together, such as visits of a patient; see `from_frame`.
        sample_weight : array of shape (n,), optional
            Weights of the rows; see `from_frame`. Those of the target count once each.
        labelled_target : (X, y) or (X, y, sample_weight), optional
            A few labelled rows of the target.
        oracle_labels : array of shape (n_T,), optional
            The labels of `X_target`, for experiments only.
        """
        stacked = GivenSite("", X, y, subject=subject, sample_weight=sample_weight)
        sources = split_by_site(stacked, groups)
        target = GivenSite(target_name, X_target, oracle_labels)
        return cls._of_sites(sources, target, labelled_target=labelled_target, task=task)

    @classmethod
    def from_sites(
        cls,
        sites: Mapping[str, tuple[Any, ...]] | Iterable[tuple[Any, ...]],
        X_target: Any,
        *,
        labelled_target: tuple[Any, ...] | None = None,
        oracle_labels: ArrayLike | None = None,
        target_name: str = "target",
        task: Task | None = None,
    ) -> Self:
        """Read one (X, y) per source: a mapping from names, or a list (named "1", "2", ...).

        (X, y, sample_weight) gives the rows weights; see `from_frame`.

        >>> a, b = (np.zeros((9, 1)), np.arange(9.0)), (np.ones((9, 1)), np.arange(9.0))
        >>> [site.name for site in ShiftProblem.from_sites([a, b], np.zeros((5, 1))).sources]
        ['1', '2']
        """
        named = sites.items() if hasattr(sites, "items") else enumerate(sites, start=1)
        sources = [GivenSite.of_tuple(str(name), site) for name, site in named]
        target = GivenSite(target_name, X_target, oracle_labels)
        return cls._of_sites(sources, target, labelled_target=labelled_target, task=task)

    @classmethod
    def from_sample_domain(
        cls,
        X: Any,
        y: ArrayLike,
        sample_domain: ArrayLike,
        *,
        target: int | None = None,
        sample_weight: ArrayLike | None = None,
        task: Task | None = None,
    ) -> Self:
        """Read skada's form: `sample_domain` >= 0 marks a source row, < 0 a target row.

        The labels of target rows, masked (-1 or NaN) or not, are never read. With more than one
        target domain, `target` is the one to tune for. `sample_weight` has shape (n,); see
        `from_frame`.
        """
        domain = np.asarray(sample_domain)
        if domain.dtype.kind not in "iuf" or np.any(domain != np.round(domain.astype(float))):
            raise SettingsError("sample_domain must hold whole numbers: >= 0 source, < 0 target")
        stacked = GivenSite("", X, y, sample_weight=sample_weight)
        sites = {int(site.name): site for site in split_by_site(stacked, domain.astype(int))}
        targets = sorted(number for number in sites if number < 0)
        if not targets:
            raise SettingsError("sample_domain marks no row as target (none is < 0)")
        chosen = targets[0] if target is None and len(targets) == 1 else target
        if chosen not in targets:
            raise SettingsError(f"the target domains are {targets}; choose one: target=")
        sources = [site for number, site in sites.items() if number >= 0]
        return cls._of_sites(sources, sites[chosen]._replace(y=None), task=task)

    @classmethod
    def _of_sites(
        cls,
        sources: Sequence[GivenSite],
        target: GivenSite,
        *,
        columns: Columns | None = None,
        notes: Sequence[str] = (),
        labelled_target: tuple[Any, ...] | None = None,
        use_labels: bool = False,
        task: Task | None = None,
        label: str = "",
        option: Option = python_option,
        stacklevel: int = 3,
    ) -> Self:
        """Check all sites, give them the same columns, and decide the task.

        Labels of the target are its truth, unless they are to be used. Without `columns`, they are
        those of the rows, and nothing is decided. The most important notes become warnings at the
        `stacklevel`, none at 0; those given are known already.
        """
        if task is not None:
            check_choice(task, ("classification", "regression"), "task")
        check_names([site.name for site in sources], target.name)
        sources, target = [site.in_pandas() for site in sources], target.in_pandas()
        few, loud, truth = [], [], None
        if labelled_target is not None:
            few = [GivenSite.of_tuple(_FEW, labelled_target).in_pandas()]
        if target.y is not None:
            if use_labels:
                few = [target.take(np.asarray(pd.notna(target.y)), _FEW)]
            else:
                truth = as_labels(target.y, target.name, label or "y")

        tables = align({site.name: site.X for site in (target, *sources, *few)})
        what = label or "y"
        labels = {site.name: as_labels(site.y, site.name, what) for site in (*sources, *few)}
        decided, about_task = decide_task(labels, task, what, option)
        if decided == "regression":  # booleans cannot be subtracted
            labels = {site: y.astype(float) if y.dtype == bool else y for site, y in labels.items()}
        groups, about_subjects = subject_codes(target, sources, few)
        weights, about_weights = weights_by_site(target, sources, few)

        def checked(site: GivenSite, y: NDArray[Any] | None) -> Site:
            key, name = site.name, target.name if site.name == _FEW else site.name
            return Site(name, tables[key], y, site.rows, groups.get(key), weights.get(key))

        at_target = checked(target, None)
        sites = tuple(checked(site, labels[site.name]) for site in sources)
        if decided == "classification":
            check_classes(sites, labels.get(_FEW), label)
        if len(sites) == 1:
            loud.append(
                f"there is only one source, {sites[0].name!r}, so differences between sites cannot "
                "be estimated"
            )
        if columns is None:
            columns = _columns_of({n: X for n, X in tables.items() if n != _FEW}, target.name)
        quiet = columns.decisions
        if constant := [name for name, column in columns.items() if column.distinct < 2]:
            quiet.append(f"constant column(s), of no use to a model: {listed(constant)}")
        quiet += about_task
        if small := [site.name for site in sites if len(site) < _SMALL_SITE]:
            rows = f"{sites_have(small)} fewer than {_SMALL_SITE} rows"
            its = "its" if len(small) == 1 else "their"
            quiet.append(f"{rows}: {its} own estimates will be rough")
        quiet += [*about_subjects, *about_weights]
        for note in loud if stacklevel else []:
            warnings.warn(note, DataWarning, stacklevel=stacklevel)
        return cls(
            sources=sites,
            target=at_target,
            labelled_target=checked(few[0], labels[_FEW]) if few else None,
            oracle=None if truth is None else checked(target, truth),
            task=decided,
            columns=columns,
            notes=(*notes, *loud, *quiet),
            label=label,
        )

    @property
    def names(self) -> list[str]:
        """The names of the sources."""
        return [site.name for site in self.sources]

    @property
    def targets(self) -> tuple[Site, ...]:
        """The sites to tune for: `target`, or those of which it holds the rows."""
        parts = self.target_rows.items()
        return tuple(self.target.take(rows, name) for name, rows in parts) or (self.target,)

    def at(self, site: Any, *, name: str = "new") -> Self:
        """Return the problem of another target: same sources, same columns.

        Parameters
        ----------
        site : site name, or array or DataFrame of shape (n, d)
            One of `targets`; or a source, which is then the target, its labels kept aside as
            `oracle`, and all other sources remain; or rows of a new site.
        name : str
            Of the site whose rows are given.

        >>> df = pd.DataFrame({"shop": list("BBBCCCDDDAAE"), "area": [3, 4, 5, 4, 6, 7, 2, 5, 6] +
        ...                    [4, 5, 6], "sales": [1, 2, 3, 1, 3, 4, 1, 2, 4] + [None] * 3})
        >>> problem = ShiftProblem.from_frame(
        ...     df, site="shop", label="sales", target="unlabelled", task="regression")
        >>> [site.name for site in problem.targets], len(problem.at("A").target)
        (['A', 'E'], 2)
        >>> problem.at("B").names, len(problem.at(df[:4]).target)
        (['C', 'D'], 4)
        """
        sources: tuple[Site, ...] = self.sources
        oracle: Site | None = None
        if np.ndim(site) == 1:
            raise DataError("ask for one site at a time: its name, or rows of shape (n, d)")
        if np.ndim(site):
            X = align({name: self.read(site), f"sources of {name}": self.sources[0].X})[name]
            weights = None if weights_of(sources) is None else np.ones(len(X))
            target = Site(name, X, sample_weight=weights)
        elif (wanted := str(site)) == self.target.name:
            return self
        else:
            targets = self.target_rows or [self.target.name]
            check_choice(wanted, [*targets, *self.names], "site", DataError)
            if wanted in self.target_rows:
                rows = self.target_rows[wanted]
                target = self.target.take(rows, wanted)
                oracle = None if self.oracle is None else self.oracle.take(rows, wanted)
            else:
                (oracle,) = (site for site in sources if site.name == wanted)
                sources = tuple(site for site in sources if site is not oracle)
                about_rows = oracle.rows, oracle.groups, oracle.sample_weight
                target = Site(wanted, oracle.X, None, *about_rows)
        columns = self.columns
        frames = {s.name: X for s in (target, *sources) if isinstance(X := s.X, pd.DataFrame)}
        if frames:
            columns = columns.of_target(frames, target.name)
        return replace(
            self,
            sources=sources,
            target=target,
            labelled_target=None,
            oracle=oracle,
            columns=columns,
            target_rows={},
        )

    @property
    def labelled_sites(self) -> tuple[Site, ...]:
        """All sites with labels: the sources, and the few labelled target rows, if any."""
        return (*self.sources, *([] if self.labelled_target is None else [self.labelled_target]))

    @property
    def target_labelled(self) -> NDArray[np.bool_]:
        """Which rows of the target have a label that is used, shape (n_T,)."""
        few = self.labelled_target
        return np.isin(self.target.rows, [] if few is None else few.rows)

    def read(self, X: Any) -> Any:
        """Return new rows with the columns of this problem's, read as those were.

        Columns of an array are found by place; further columns of a table are left out.
        """
        X, like = as_pandas(X, "the rows"), self.target.X
        if isinstance(X, pd.DataFrame) and isinstance(like, pd.DataFrame):
            check_columns(X.columns, "the rows")
            if not self.columns.as_given:
                return self.columns.read(X)
            NewRows(self.columns).check_names(X.columns)
            return X.reindex(columns=like.columns)
        shape = np.shape(X)
        if len(shape) == 2 and shape[1] != like.shape[1]:
            raise DataError(
                f"the rows have {shape[1]} columns, but the model was trained with {like.shape[1]}"
            )
        if isinstance(like, pd.DataFrame) and len(shape) == 2:
            return pd.DataFrame(X, columns=like.columns).infer_objects()
        return X

    @property
    def classes(self) -> NDArray[Any]:
        """The classes that occur in any labelled site, sorted; empty for regression."""
        if self.task == "regression":
            return np.empty(0)
        return distinct_labels(site.labels for site in self.labelled_sites)

    def split(
        self,
        shares: tuple[float, float, float] = PAPER_SHARES,
        *,
        random_state: int = 0,
    ) -> Split:
        """Split every source into rows for the density ratio, for training, for validation.

        Classes are spread evenly over the parts; one with only a row or two goes to training, since
        a model cannot predict what it never saw.

        Parameters
        ----------
        shares : three numbers >= 0 that add up to 1
            Default: the paper's .21 / .49 / .30. A share of 0 leaves that part empty, as for
            the naive estimate, which needs no density ratio: ``(0, .7, .3)``.
        random_state : int
            The same seed gives the same split, whatever the order of the sites.
        """
        if not isinstance(random_state, int | np.integer) or random_state < 0:
            raise SettingsError(f"random_state must be a whole number >= 0, got {random_state!r}")
        stratify = self.task == "classification"
        return split_sites(self.sources, self.labelled_target, shares, stratify, random_state)

    def fingerprint(self) -> str:
        """Return a hash of the data: task, names, columns, rows, labels, subjects and weights.

        >>> a, b = (np.zeros((9, 1)), np.arange(9.0)), (np.ones((9, 1)), np.arange(9.0))
        >>> one, other = (ShiftProblem.from_sites([a, x], np.zeros((5, 1))) for x in (a, b))
        >>> one.fingerprint() == other.fingerprint()
        False
        """
        digest = hashlib.sha256(self.task.encode())
        for site in (self.target, *self.labelled_sites):
            digest.update(site.name.encode() + b"\0")
            X = pd.DataFrame(site.X)
            digest.update("\0".join(map(str, X.columns)).encode())
            digest.update(pd.util.hash_pandas_object(X, index=False).to_numpy().tobytes())
            if site.y is not None:
                digest.update(pd.util.hash_array(site.y).tobytes())
            if site.groups is not None:
                digest.update(b"groups" + site.groups.astype("<i8").tobytes())
            if site.sample_weight is not None:
                digest.update(b"weights" + site.sample_weight.astype("<f8").tobytes())
        for name, rows in self.target_rows.items():
            digest.update(name.encode() + b"\0" + rows.astype("<i8").tobytes())
        return digest.hexdigest()

    def diagnose(
        self, ratio: str | DensityRatio = "logistic", *, random_state: int = 0
    ) -> pd.DataFrame:
        """Return the overlap of every source with the target; no model is trained.

        See `shiftune.ratio.diagnose`.
        """
        # A convenience for the user's first line; the only import from a later layer.
        from shiftune.ratio import diagnose

        return diagnose(self, ratio, random_state=random_state)

    def __repr__(self) -> str:
        few = self.labelled_target
        labels = " without labels" if few is None else f", and labels of {len(few)}"
        targets, sources = (
            listed([f"{site.name!r}: {len(site)} rows" for site in sites], 7, quoted=False)
            for sites in (self.targets, self.sources)
        )
        lines = [
            f"ShiftProblem: {self.task}, {count(len(self.columns), 'column')}",
            f"  target{'s' * (len(self.targets) > 1):2}{targets}{labels}",
            f"  sources {sources}",
        ]
        lines += [f"  note    {note}" for note in self.notes]
        return "\n".join(lines)


def _columns_of(tables: dict[str, Features], target: str) -> Columns:
    """Return the columns of rows in which nothing is decided."""
    frames = {name: X for name, X in tables.items() if isinstance(X, pd.DataFrame)}
    if frames:
        return Columns.of_rows(frames, target)
    with np.errstate(invalid="ignore"):
        low = np.fmin.reduce([np.fmin.reduce(X, axis=0) for X in tables.values()])
        high = np.fmax.reduce([np.fmax.reduce(X, axis=0) for X in tables.values()])
    ranges = zip(low.tolist(), high.tolist(), strict=True)
    columns = [
        Column(name=c, kind="number", low=a, high=b, distinct=2 if a < b else 1)
        for c, (a, b) in enumerate(ranges)
    ]
    return replace(Columns.of(columns), as_given=True)
