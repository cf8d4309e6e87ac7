"""ShiftProblem: labelled sources and an unlabelled target, checked."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from shiftune._names import Task
from shiftune._wording import listed
from shiftune.errors import DataWarning, SettingsError
from shiftune.problem._large import LabelRules, Sample, SampledParts, read_sampled
from shiftune.problem._reading import (
    GivenSite,
    TargetLabels,
    check_names,
    read_sites,
    split_by_site,
    split_domains,
    split_frame,
)
from shiftune.problem._site import Site, distinct_labels
from shiftune.problem._split import PAPER_SHARES, Split, split_sites

if TYPE_CHECKING:
    from shiftune.ratio._base import DensityRatio


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
        The rows of the site to tune for, without labels.
    labelled_target : Site or None
        A few labelled rows of the target: an additional source, whose density ratio is 1.
    oracle : Site or None
        The target with all its labels, for experiments only: the search never reads it.
    task : {"classification", "regression"}
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
    notes: tuple[str, ...] = field(default=())
    label: str = ""
    sample: Sample | None = None

    def __post_init__(self) -> None:
        check_names(self.names, self.target.name)

    @classmethod
    def from_frame(
        cls,
        df: pd.DataFrame,
        *,
        site: Hashable,
        label: Hashable,
        target: Any,
        group: Hashable | None = None,
        sample_weight: Hashable | None = None,
        features: Sequence[Hashable] | None = None,
        target_labels: TargetLabels = "hide",
        missing_labels: Literal["error", "drop"] = "error",
        target_name: str = "target",
        task: Task | None = None,
    ) -> ShiftProblem:
        """Read a table with a site column.

        Parameters
        ----------
        df : DataFrame
            One row per case, all sites together.
        site, label : column names
        target : site name, or DataFrame
            The site to tune for; or its rows as a table of their own.
        group : column name, optional
            Rows with the same value belong together, such as visits of a patient: they are never
            divided between training and validation, and intervals count groups instead of rows. A
            row without a value is a group of its own.
        sample_weight : column name, optional
            Numbers above 0: a row of weight 2 counts as two rows of its site, in training (the
            model's `sample_weight`), in the site's mean loss and in metrics. Standard errors
            count rows, not weights. Rows of the target count once each if none has a weight.
        features : list of column names, optional
            Default: all columns but `site`, `label`, `group` and `sample_weight`.
        target_labels : {"hide", "use", "oracle"}
            Labels of the target are hidden (the default), used as a few labelled rows, or kept
            aside as the truth of an experiment.
        missing_labels : {"error", "drop"}
            Whether source rows without a label are an error or left out.
        target_name : str
            Name of a target that is given as a table of its own.
        task : {"classification", "regression"}, optional
            Default: decided by the labels (see `shiftune.problem._site.task_of`).
        """
        sources, own, notes = split_frame(
            df, site, label, target, features, missing_labels, target_name, group, sample_weight
        )
        return cls._read(
            sources, own, notes, target_labels=target_labels, task=task, label=str(label)
        )

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
    ) -> ShiftProblem:
        """Read a table that may not fit in memory, in parts.

        Parameters
        ----------
        data : path of a Parquet file or folder, Dask frame, polars lazy frame, or DataFrame
        site, label, target, **options
            See `from_frame`.
        most_rows : int
            Of more rows, so many are drawn at random: small sites whole, of all others the same
            number, and a note states what that costs. With ``target_labels="use"`` all labelled
            rows of the target are read besides; with ``missing_labels="drop"`` rows of sources are
            drawn from those with a label. Rows with a `group` are not drawn: more are an error.
        random_state : int
            Draws the rows.
        """
        columns = None
        if (features := options.get("features")) is not None:
            more = (options.get(role) for role in ("group", "sample_weight"))
            columns = [site, label, *features, *(name for name in more if name is not None)]
        keep = options.get("target_labels") == "use"
        drop = options.get("missing_labels") == "drop"
        labels = LabelRules(label, None if hasattr(target, "columns") else target, keep, drop)
        sampled = read_sampled(
            data,
            site,
            most_rows,
            columns=columns,
            labels=labels,
            group=options.get("group"),
            random_state=random_state,
        )
        problem = cls.from_frame(sampled.table, site=site, label=label, target=target, **options)
        return problem.of_sample(sampled)

    def of_sample(self, sampled: SampledParts, rows: NDArray[np.intp] | None = None) -> Self:
        """Return the problem of a table that was drawn, with its notes, and its row numbers."""
        own, few, added = self.target, self.labelled_target, sampled.added
        if added.any():  # rows that are labelled may not be typical of the target
            own = own.take(np.flatnonzero(~added[own.rows]))
        if rows is not None:
            own, few = own.numbered(rows[own.rows]), few and few.numbered(rows[few.rows])
        notes = (*sampled.notes, *self.notes)
        return replace(self, target=own, labelled_target=few, notes=notes, sample=sampled.sample)

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        y: ArrayLike,
        groups: ArrayLike,
        X_target: Any,
        *,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        labelled_target: tuple[Any, ArrayLike] | None = None,
        oracle_labels: ArrayLike | None = None,
        target_name: str = "target",
        task: Task | None = None,
    ) -> ShiftProblem:
        """Read the rows of all sources stacked, with the site of every row in `groups`.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
        y, groups : arrays of shape (n,)
        X_target : array or DataFrame of shape (n_T, d)
        group : array of shape (n,), optional
            Ids of rows that belong together, such as visits of a patient; see `from_frame`.
        sample_weight : array of shape (n,), optional
            Weights of the rows; see `from_frame`. Those of the target count once each.
        labelled_target : (X, y), optional
            A few labelled rows of the target.
        oracle_labels : array of shape (n_T,), optional
            The labels of `X_target`, for experiments only.
        """
        return cls._read(
            split_by_site(X, y, groups, group=group, sample_weight=sample_weight),
            GivenSite(target_name, X_target, oracle_labels),
            target_labels="oracle",
            labelled_target=labelled_target,
            task=task,
        )

    @classmethod
    def from_sites(
        cls,
        sites: Mapping[str, tuple[Any, ...]] | Iterable[tuple[Any, ...]],
        X_target: Any,
        *,
        labelled_target: tuple[Any, ArrayLike] | None = None,
        oracle_labels: ArrayLike | None = None,
        target_name: str = "target",
        task: Task | None = None,
    ) -> ShiftProblem:
        """Read one (X, y) per source: a mapping from names, or a list (named "1", "2", ...).

        (X, y, sample_weight) gives the rows weights; see `from_frame`.

        >>> a, b = (np.zeros((9, 1)), np.arange(9.0)), (np.ones((9, 1)), np.arange(9.0))
        >>> [site.name for site in ShiftProblem.from_sites([a, b], np.zeros((5, 1))).sources]
        ['1', '2']
        """
        pairs = list(sites.items()) if hasattr(sites, "items") else list(enumerate(sites, start=1))
        given = []
        for name, pair in pairs:
            if not isinstance(pair, tuple | list) or len(pair) not in (2, 3):
                raise SettingsError(
                    f"site {str(name)!r} must be a pair (X, y), or (X, y, sample_weight)"
                )
            X, y, *weights = pair
            given.append(GivenSite(str(name), X, y, sample_weight=weights[0] if weights else None))
        return cls._read(
            given,
            GivenSite(target_name, X_target, oracle_labels),
            target_labels="oracle",
            labelled_target=labelled_target,
            task=task,
        )

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
    ) -> ShiftProblem:
        """Read skada's form: `sample_domain` >= 0 marks a source row, < 0 a target row.

        The labels of target rows, masked (-1 or NaN) or not, are never read. With more than one
        target domain, `target` is the one to tune for. `sample_weight` has shape (n,); see
        `from_frame`.
        """
        sources, own = split_domains(X, y, sample_domain, target, sample_weight)
        return cls._read(sources, own, task=task)

    @classmethod
    def _read(
        cls,
        sources: Sequence[GivenSite],
        target: GivenSite,
        notes: Sequence[str] = (),
        **options: Any,
    ) -> ShiftProblem:
        parts, loud = read_sites(sources, target, **options)
        for note in (*notes, *loud):
            warnings.warn(note, DataWarning, stacklevel=3)
        parts["notes"] = (*notes, *parts["notes"])
        return cls(**parts)

    @property
    def names(self) -> list[str]:
        """The names of the sources."""
        return [site.name for site in self.sources]

    @property
    def labelled_sites(self) -> tuple[Site, ...]:
        """All sites with labels: the sources, and the few labelled target rows, if any."""
        return (*self.sources, *([] if self.labelled_target is None else [self.labelled_target]))

    @property
    def columns(self) -> list[str]:
        """The names of the feature columns (their numbers, for arrays)."""
        X = self.target.X
        return [str(c) for c in (X.columns if isinstance(X, pd.DataFrame) else range(X.shape[1]))]

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
        stratify: bool | None = None,
        random_state: int = 0,
        target_trains: bool = True,
    ) -> Split:
        """Split every source into rows for the density ratio, for training, for validation.

        Parameters
        ----------
        shares : three numbers >= 0 that add up to 1
            Default: the paper's .21 / .49 / .30. A share of 0 leaves that part empty, as for
            the naive estimate, which needs no density ratio: ``(0, .7, .3)``.
        stratify : bool, optional
            Spread the classes evenly over the parts; default: for classification. A class with
            only a row or two goes to training, since a model cannot predict what it never saw.
        random_state : int
            The same seed gives the same split, whatever the order of the sites.
        target_trains : bool
            Share the few labelled rows of the target between training and validation; otherwise
            all are for validation.
        """
        if not isinstance(random_state, int | np.integer) or random_state < 0:
            raise SettingsError(f"random_state must be a whole number >= 0, got {random_state!r}")
        by_class = self.task == "classification" if stratify is None else stratify
        return split_sites(
            self.sources,
            self.labelled_target,
            shares,
            by_class,
            random_state,
            target_trains=target_trains,
        )

    def fingerprint(self) -> str:
        """Return a hash of the data: task, names, columns, rows, labels, groups and weights.

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
        return digest.hexdigest()

    def diagnose(
        self, ratio: str | DensityRatio = "logistic", *, random_state: int = 0
    ) -> pd.DataFrame:
        """Return the overlap of every source with the target; no model is trained.

        See `shiftune.ratio.diagnose`. The default ratio is that of `ShiftSearch`; "auto" is more
        thorough and takes some 10 s for 30 sources.
        """
        # A convenience for the user's first line; the only import from a later layer.
        from shiftune.ratio import diagnose

        return diagnose(self, ratio, random_state=random_state)

    def __repr__(self) -> str:
        count = len(self.columns)
        few = self.labelled_target
        labels = " without labels" if few is None else f", and labels of {len(few)}"
        shown = [f"{site.name!r}: {len(site)} rows" for site in self.sources]
        lines = [
            f"ShiftProblem: {self.task}, {count} column{'s' if count != 1 else ''}",
            f"  target  {self.target.name!r}: {len(self.target)} rows{labels}",
            f"  sources {listed(shown, 7, quoted=False)}",
        ]
        lines += [f"  note    {note}" for note in self.notes]
        return "\n".join(lines)
