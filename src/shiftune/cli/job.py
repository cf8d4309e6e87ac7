"""What a user asks for with `shiftune tune`, and the search that answers it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from shiftune.cli.choices import loss_names, risk_names
from shiftune.errors import ProblemError
from shiftune.evaluate.unseen_sites import LeaveSourcesOut
from shiftune.models import (
    MODELS,
    ReadyModel,
    read_space,
    ready_model,
    space_as_toml,
    space_from_toml,
)
from shiftune.problem import PAPER_SHARES
from shiftune.search import ShiftSearch
from shiftune.search.settings import check_settings, loss_for
from shiftune.spelling import check_choice
from shiftune.tables import SiteTable, read_as_written, read_file, site_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shiftune.problem import ShiftProblem
    from shiftune.problem.labels import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneOptions:
    """The table, the model and the settings of a search.

    `space` is the path of a file, or the text of a space; None is the model's ready one. `loss`
    and `risk` are None where the search is to decide.
    """

    data: Path
    site: str
    target: str
    label: str
    model: str
    task: Task | None = None
    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()
    drop_unlabelled: bool = False
    use_target_labels: bool = False
    fast: bool = False
    space: Path | str | None = None
    loss: str | None = None
    risk: str | None = None
    ratio: str = "logistic"
    seed: int = 0


@dataclass(frozen=True, slots=True)
class TuneJob:
    """A question whose data has been read and whose settings have been checked."""

    question: TuneOptions
    table: SiteTable
    identified: pd.DataFrame
    """What the file's identifiers say of the target's rows, as it is written there."""
    model: ReadyModel
    search: ShiftSearch
    options: dict[str, Any]
    """What was decided, as JSON can hold it: enough to ask the same question again, and what must
    be the same for trials to be comparable."""


def prepare_job(question: TuneOptions, *, trials: int, jobs: int, storage: Path) -> TuneJob:
    """Read the data and set up the search; mistakes are found here, and nothing is written."""
    q = question
    for name, choices, what in (
        (q.model, list(MODELS), "model"),
        (q.risk, risk_names(), "risk estimator"),
        (q.loss, [*loss_names("regression"), *loss_names("classification")], "loss"),
    ):
        if name is not None:
            check_choice(name, choices, what)
    table = site_table(
        read_file(q.data),
        site=q.site,
        target=q.target,
        label=q.label,
        task=q.task,
        keep=q.keep,
        drop=q.drop,
        identifiers=q.identifiers,
        drop_unlabelled=q.drop_unlabelled,
        use_target_labels=q.use_target_labels,
    )
    task = table.problem.task
    if q.loss is not None:
        check_choice(q.loss, loss_names(task), f"loss for {task}")
    model = ready_model(
        q.model,
        task,
        table.schema,
        training_rows=_fewest_training_rows(table.problem),
    )
    space = model.space
    if isinstance(q.space, Path):
        space = read_space(q.space, model.bare, model.space)
    elif q.space is not None:
        space = space_from_toml(q.space, model.bare, model.space)
    search = ShiftSearch(
        model.pipeline,
        model.in_pipeline(space),
        loss=q.loss,
        ratio=q.ratio,
        n_trials=trials,
        n_jobs=jobs,
        storage=storage,
        random_state=q.seed,
    )
    if q.risk is not None:
        search.set_params(risk=q.risk)
    if q.fast:
        if search.risk != "adjusted":
            raise ProblemError(
                f"--fast is for the risk estimator adjusted; {search.risk} fits one model per "
                "trial as it is"
            )
        search.set_params(plan=LeaveSourcesOut(0))
    loss = loss_for(search, table.problem)
    check_settings(search)
    options = {
        "site": q.site,
        "target": table.problem.target.name,
        "label": q.label,
        "task": task,
        "keep": sorted(q.keep),
        "drop": sorted(q.drop),
        "identifiers": sorted(q.identifiers),
        "drop_unlabelled": q.drop_unlabelled,
        "use_target_labels": q.use_target_labels,
        "fast": q.fast,
        "model": q.model,
        "space": space_as_toml(space),
        "loss": loss.name,
        "risk": search.risk,
        "ratio": q.ratio,
        "seed": q.seed,
        "data": table.problem.fingerprint(),
    }
    return TuneJob(q, table, _identified(q.data, table), model, search, options)


def _identified(path: Path, table: SiteTable) -> pd.DataFrame:
    if not table.identifiers:
        return pd.DataFrame(index=range(len(table.target_rows)))
    written = read_as_written(path, table.identifiers)
    return written.iloc[table.target_rows].reset_index(drop=True)


def _fewest_training_rows(problem: ShiftProblem) -> int:
    """Rows that any model of a trial is trained on at least: some leave a group of sources out."""
    # Rounding may cost every source a row.
    rows = [max(int(PAPER_SHARES[1] * len(site)) - 1, 0) for site in problem.sources]
    by_name = dict(zip(problem.names, rows, strict=True))
    groups = LeaveSourcesOut().groups(np.repeat(problem.names, rows))
    return sum(rows) - max((sum(by_name[name] for name in group) for group in groups), default=0)


def from_saved(data: Path, options: Mapping[str, Any]) -> TuneOptions:
    """Return the question that was asked with these options."""
    same = {name: value for name, value in options.items() if name != "data"}
    same |= {name: tuple(options.get(name, ())) for name in ("keep", "drop", "identifiers")}
    return TuneOptions(data=data, **same)
