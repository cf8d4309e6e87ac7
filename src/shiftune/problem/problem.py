"""ShiftProblem: labelled sources, an unlabelled target, and nothing that could be wrong."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from shiftune.errors import DataError, DataWarning, SettingsError
from shiftune.problem.columns import check_unique
from shiftune.problem.labels import Task
from shiftune.problem.reading import GivenSite, TargetLabels, check_names, read_sites
from shiftune.problem.site import Site
from shiftune.problem.split import PAPER_SHARES, Split, split_sites
from shiftune.problem.stacked import check_roles, has_label, site_names, split_by_site
from shiftune.spelling import check_choice
from shiftune.wording import listed

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from shiftune.ratio.base import DensityRatio


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ShiftProblem:
    """Labelled sources and a target without labels. Nothing in it can be changed.

    Made by `from_frame`, `from_arrays`, `from_sites` or `from_sample_domain`, which copy what
    they are given and check it.

    Attributes
    ----------
    sources : tuple of Site
        The labelled sites, at least one.
    target : Site
        The rows of the site to tune for, without labels.
    labelled_target : Site or None
        A few labelled rows of the target: one more source, whose density ratio is 1.
    oracle : Site or None
        The target with all its labels. For experiments only: nothing that chooses reads it.
    task : {"classification", "regression"}
    notes : tuple of str
        What was decided or noticed while reading the data.

    Examples
    --------
    >>> df = pd.DataFrame({"hospital": list("BBBCCCAA"), "age": [60, 71, 55, 30, 41, 38, 45, 52],
    ...                    "ill": [1, 1, 0, 0, 1, 0, None, None]})
    >>> ShiftProblem.from_frame(df, site="hospital", label="ill", target="A")
    ShiftProblem: classification, 1 column
      target  'A': 2 rows without labels
      sources 'B': 3 rows, 'C': 3 rows
      note    sites 'B', 'C' have fewer than 10 rows: their own estimates will be rough
    """

    sources: tuple[Site, ...]
    target: Site
    labelled_target: Site | None = None
    oracle: Site | None = None
    task: Task = "regression"
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        check_names(self.names, self.target.name)

    # ---------------------------------------------------------------- ways in

    @classmethod
    def from_frame(
        cls,
        df: pd.DataFrame,
        *,
        site: Hashable,
        label: Hashable,
        target: Any,
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
        features : list of column names, optional
            Default: all columns but `site` and `label`.
        target_labels : {"hide", "use", "oracle"}
            What to do with labels that the target has: hide them (the default); use them as a
            few labelled rows; or keep them aside as the truth of an experiment.
        missing_labels : {"error", "drop"}
            What to do with source rows that have no label.
        target_name : str
            What to call a target that is given as a table of its own.
        task : {"classification", "regression"}, optional
            Default: told from the labels.
        """
        if not isinstance(df, pd.DataFrame):
            raise SettingsError(f"from_frame needs a pandas DataFrame, got {type(df).__name__}")
        if missing_labels not in ("error", "drop"):
            raise SettingsError(f"missing_labels is 'error' or 'drop', got {missing_labels!r}")
        if isinstance(features, str):
            raise SettingsError(f"features is a list of columns; did you mean [{features!r}]?")
        check_roles(df, site, label, *(features or ()))
        chosen = [c for c in df if c not in (site, label)] if features is None else list(features)
        if taken := [name for name in (site, label) if name in chosen]:
            raise SettingsError(f"column {taken[0]!r} cannot be a feature as well")
        X, y, groups = df[chosen], df[label], site_names(df[site], f"the site column {site!r}")
        if isinstance(target, pd.DataFrame):
            check_unique(target.columns, "the target's table")
            for name in chosen:
                check_choice(name, target.columns, "column of the target", DataError)
            inside = np.zeros(len(df), dtype=bool)
            own = GivenSite(target_name, target[chosen], target.get(label))
        else:
            target_name = _site_named(target, df[site], groups)
            inside = groups == target_name
            own = GivenSite(target_name, X[inside], y[inside], np.flatnonzero(inside))
        kept, notes = has_label(y[~inside], groups[~inside], drop=missing_labels == "drop")
        rows = np.flatnonzero(~inside)[kept]
        sources = split_by_site(X.iloc[rows], y.iloc[rows], groups[rows], rows=rows)
        return cls._read(
            sources, own, notes, target_labels=target_labels, task=task, label=str(label)
        )

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        y: ArrayLike,
        groups: ArrayLike,
        X_target: Any,
        *,
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
        labelled_target : (X, y), optional
            A few labelled rows of the target.
        oracle_labels : array of shape (n_T,), optional
            The labels of `X_target`, for experiments only.
        """
        return cls._read(
            split_by_site(X, y, groups),
            GivenSite(target_name, X_target, oracle_labels),
            target_labels="oracle",
            labelled_target=labelled_target,
            task=task,
        )

    @classmethod
    def from_sites(
        cls,
        sites: Mapping[str, tuple[Any, ArrayLike]] | Iterable[tuple[Any, ArrayLike]],
        X_target: Any,
        *,
        labelled_target: tuple[Any, ArrayLike] | None = None,
        oracle_labels: ArrayLike | None = None,
        target_name: str = "target",
        task: Task | None = None,
    ) -> ShiftProblem:
        """Read one (X, y) per source: a mapping from names, or a list (named "1", "2", ...).

        >>> a, b = (np.zeros((9, 1)), np.arange(9.0)), (np.ones((9, 1)), np.arange(9.0))
        >>> [site.name for site in ShiftProblem.from_sites([a, b], np.zeros((5, 1))).sources]
        ['1', '2']
        """
        pairs = list(sites.items()) if hasattr(sites, "items") else list(enumerate(sites, start=1))
        given = []
        for name, pair in pairs:
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise SettingsError(f"site {str(name)!r} must be a pair (X, y)")
            given.append(GivenSite(str(name), *pair))
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
        task: Task | None = None,
    ) -> ShiftProblem:
        """Read skada's form: `sample_domain` >= 0 marks a source row, < 0 a target row.

        The labels of target rows, masked (-1 or NaN) or not, are never read. With more than one
        target domain, `target` says which one is meant.
        """
        domain = np.asarray(sample_domain)
        if domain.dtype.kind not in "iuf" or np.any(domain != np.round(domain.astype(float))):
            raise SettingsError("sample_domain must hold whole numbers: >= 0 source, < 0 target")
        sites = {int(site.name): site for site in split_by_site(X, y, domain.astype(int))}
        targets = sorted(number for number in sites if number < 0)
        if not targets:
            raise SettingsError("sample_domain marks no row as target (none is < 0)")
        if target is None and len(targets) > 1:
            raise SettingsError(f"there are several target domains {targets}; choose one: target=")
        chosen = targets[0] if target is None else target
        if chosen not in targets:
            raise SettingsError(f"target={chosen} is not among the target domains {targets}")
        sources = [site for number, site in sites.items() if number >= 0]
        return cls._read(sources, sites[chosen]._replace(y=None), task=task)

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

    # ---------------------------------------------------------------- what it offers

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
        return np.unique(np.concatenate([site.labels for site in self.labelled_sites]))

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
            Spread the classes evenly over the parts; default: for classification. A class of
            which only a row or two exist goes to training, where a model must meet it.
        random_state : int
            The same seed gives the same split, whatever the order of the sites.
        target_trains : bool
            Whether the few labelled rows of the target, if there are any, are shared between
            training and validation; otherwise all are for validation.
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
        """Return a text that is the same for the same data and differs for other data.

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
        return digest.hexdigest()

    def diagnose(
        self, ratio: str | DensityRatio = "logistic", *, random_state: int = 0
    ) -> pd.DataFrame:
        """Say, before any model is trained, which sources overlap with the target.

        See `shiftune.ratio.diagnose`, which this calls. The default ratio is that of
        `ShiftSearch`; "auto" looks closer and takes some 10 s for 30 sources.
        """
        # The one look down the picture of the layers: a convenience for the user's first line.
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


def _site_named(target: Any, where: pd.Series, groups: NDArray[np.object_]) -> str:
    """Return the name of the site that the user means; 1 also means 1.0."""
    same = [v for v in where.unique() if type(v) is not str and v == target]
    return check_choice(str(same[0] if same else target), sorted(set(groups)), "site", DataError)
