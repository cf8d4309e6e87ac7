"""From the options of `shiftune tune` to a search that is ready to run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import pandas as pd

from shiftune import _names
from shiftune._wording import check_choice
from shiftune.cli._options import TuneOptions
from shiftune.errors import SettingsError
from shiftune.models import expand_auto, ready_model, space_entries, space_from_entries
from shiftune.search import ShiftSearch
from shiftune.search._families import table_size
from shiftune.search._settings import check_settings
from shiftune.tables import SiteFiles, SiteTable


@dataclass(frozen=True)
class TuneJob:
    """Options whose table has been read and whose settings have been checked.

    Attributes
    ----------
    options : TuneOptions
        As given, with the defaults that depend on the table filled in.
    table : SiteTable
    identifiers : DataFrame
        Identifiers of the target's rows, as they are written in the file.
    search : ShiftSearch
        Ready to fit.
    """

    options: TuneOptions
    table: SiteTable
    identifiers: pd.DataFrame
    search: ShiftSearch

    @cached_property
    def fingerprint(self) -> str:
        """Fingerprint of the data that was read."""
        return self.table.problem.fingerprint()


def prepare_job(options: TuneOptions, storage: Path) -> TuneJob:
    """Read the table and set up the search; writes nothing."""
    table = _with_note(options.read(seed=options.seed))
    task = table.problem.task
    if options.loss is not None:
        check_choice(options.loss, _names.LOSSES_OF[task], f"loss for {task}")
    size = table_size(table.problem, table.schema)
    # In an order that does not depend on that of the options: the models take turns in it.
    wanted = expand_auto(options.model or [_names.AUTO])
    models = {
        name: ready_model(name, task, table.schema, size=size)
        for name in expand_auto([_names.AUTO, *_names.MODELS])
        if name in wanted
    }
    space = None
    if options.space is not None:
        if len(models) > 1:
            raise SettingsError("--space is for one model; give one --model with it")
        (model,) = models.values()
        space = space_from_entries(options.space, model.bare, model.space)
    search = ShiftSearch(
        models,
        space,
        loss=options.loss,
        risk=options.risk,
        ratio=options.ratio,
        final=options.final,
        metrics=options.metric or None,
        n_trials=options.trials,
        timeout=options.timeout,
        trial_timeout=options.trial_timeout,
        n_jobs=options.jobs,
        storage=storage,
        join=options.join,
        random_state=options.seed,
    )
    settings = check_settings(search.get_params(deep=False), table.problem)
    settled = replace(
        options,
        target=table.problem.target.name,
        task=task,
        model=list(models),
        space=None if space is None else space_entries(space),
        loss=settings.loss.name,
        final=settings.final,
    )
    return TuneJob(settled, table, _identifiers(options.files, table), search)


def _identifiers(files: SiteFiles, table: SiteTable) -> pd.DataFrame:
    if not table.identifiers:
        return pd.DataFrame(index=range(len(table.target_rows)))
    return files.as_written(table.identifiers, table.target_rows)


def _with_note(table: SiteTable) -> SiteTable:
    """Note that not all rows of the target are predicted, if they were not all read."""
    problem = table.problem
    own, sample = problem.target, problem.sample
    if sample is None or sample.share_of(own.name) == 1:
        return table
    note = (
        f"predictions.csv has the {len(own):,} rows of {own.name} that were read; shiftune predict "
        "predicts all"
    )
    first, *others = problem.notes
    return replace(table, problem=replace(problem, notes=(first, note, *others)))
