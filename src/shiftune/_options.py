# ruff: noqa: RUF009 - `option` is a field
"""Options of a search, each declared once; nothing that they stand for is loaded.

An option is a field of `SearchOptions` and its paragraph in the docstring. `ShiftSearch` and its
settings have the fields; the checks, the identity of a study, `refit`, reports, the command line,
its help and its files of settings follow from them.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, Field, dataclass, field, fields
from enum import Enum, auto
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NamedTuple

from shiftune import _names
from shiftune._wording import check_choice, loss_name
from shiftune.errors import SettingsError

if TYPE_CHECKING:
    import os

    from optuna.samplers import BaseSampler
    from optuna.storages import BaseStorage

    from shiftune.evaluate import Loss
    from shiftune.problem import ShiftProblem, Split
    from shiftune.ratio import DensityRatio
    from shiftune.risk import RiskEstimate, RiskEstimator

# Raises a SettingsError unless a value of the option with this name is possible.
Check = Callable[[Any, str], object]

# Errors of models that make their trial fail; a model that exits ends its trial, not the search.
CATCH = (Exception, SystemExit)
SEARCHING, RUNNING = "Search", "Run"  # panels of the help


class Role(Enum):
    """Part of a run that an option decides."""

    FILE = auto()
    """A file that is read: what it holds is compared, not its path."""
    DATA = auto()
    """The rows, columns and labels that are read: settings of a table."""
    SEARCH = auto()
    """What a trial is, and its risk: trials of one study have the same value."""
    RESULT = auto()
    """What is made of the trials; saved, but another run may want another result."""
    TRIALS = auto()
    """Which trials there are; neither compared nor saved, but needed to repeat a run."""
    RUN = auto()
    """Place, pace and output of this run."""


class Shell(NamedTuple):
    """An option as the command line has it; a flag with a list can be repeated.

    Its help is the first paragraph of the docstring, unless there is another text.
    """

    flag: str
    kind: Any
    metavar: str = "NAME"
    panel: str | None = SEARCHING
    text: str = ""
    short: str = ""

    @property
    def name(self) -> str:
        """Name of the field with the value."""
        return self.flag.removeprefix("--").replace("-", "_")


def option(default: Any, role: Role, check: Check | None = None, shell: Shell | None = None) -> Any:
    """Return the field of an option."""
    return field(default=default, metadata={"role": role, "check": check, "shell": shell})


# ---------------------------------------------------------------- checks


@dataclass(frozen=True)
class OneOf:
    """Check of names, which the shell completes; a value that is not text is not a name."""

    what: str
    choices: Sequence[str]
    check: Callable[[str], object] | None = None

    def __call__(self, value: Any, name: str) -> None:
        """Check a value."""
        if isinstance(value, str):
            self.check(value) if self.check else check_choice(value, self.choices, self.what)


def at_least(least: int) -> Check:
    """Check whole numbers."""

    def check(value: Any, name: str) -> None:
        if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < least:
            sign = "> 0" if least == 1 else f">= {least}"
            raise SettingsError(f"{name} must be a whole number {sign}, got {value!r}")

    return check


def _seconds(value: Any, name: str) -> None:
    if value is not None and not (isinstance(value, Real) and 0 < float(value) < math.inf):
        raise SettingsError(f"{name} must be > 0 seconds, got {value!r}")


def _jobs(value: Any, name: str) -> None:
    if not isinstance(value, Integral) or value == 0:
        raise SettingsError(
            f"{name} must be a number of processes, or -1 for one per core, got {value!r}"
        )


def _executor(value: Any, name: str) -> None:
    if value is not None and not callable(value):
        raise SettingsError(
            f"{name} must be the method get_executor of a Dask client (for processes of this "
            f"machine use n_jobs), got {value!r}"
        )


def _functions(value: Any, name: str) -> None:
    if value is not None and not (isinstance(value, Sequence) and all(map(callable, value))):
        raise SettingsError(
            f"{name} must be a list of functions of (study, trial) or None, got {value!r}"
        )


def _exceptions(value: Any, name: str) -> None:
    kinds = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
        raise SettingsError(
            f"{name} must be an exception class, such as ValueError, or a tuple of them, got "
            f"{value!r}"
        )


def _weighting(value: Any, name: str) -> None:
    if value not in (None, "importance"):
        raise SettingsError(f"{name} must be None or 'importance', got {value!r}")


# ---------------------------------------------------------------- the options

MODEL = OneOf("model", (*_names.MODELS, _names.AUTO))
LOSS = OneOf("loss", _names.LOSSES, loss_name)
RISK = OneOf("risk estimator", _names.RISKS)
RATIO = OneOf("density ratio", _names.RATIOS)
SAMPLER = OneOf("sampler", ("gp_lcb", "random", "tpe"))
FINAL = OneOf("final model", _names.FINALS)
METRIC = OneOf("metric", _names.METRICS, lambda name: None)  # there are more: thresholds, scorers
SPACE_FILE = "Search space, TOML or JSON; [bold]shiftune models NAME[/] prints one to edit."
JOIN_FOLDER = (
    "Share the trials with other processes that run the same command with the same --out, on "
    "machines that share the folder; the last one writes the results."
)


@dataclass(eq=False, repr=False)
class SearchOptions:
    """Options of a search. The first paragraph of each is also its help on the command line.

    Parameters
    ----------
    estimator : scikit-learn estimator or pipeline, name, list of names, mapping, or "auto"
        Model to tune, or several, which share the trials; default: auto, which is boosted trees, a
        kernel machine and a linear model.

        Names are those of `shiftune.models.MODELS`; such models read columns of any kind. A
        mapping has names of your choice, and pairs (estimator, space) or what
        `shiftune.models.ready_model` returns. Parameters of several have names such as
        "linear.alpha". The first trial of every model has the parameters that
        it was given, so that no choice is estimated to be worse.
    space : mapping from parameter names to distributions, or function
        Distributions are Optuna's, or a list of choices, (low, high), (low, high, "log"), or
        scipy's `uniform`, `loguniform`, `randint`; `shiftune.spaces` has ready ones. A function
        takes an Optuna trial and returns the parameters (define-by-run). A model
        by name has a space of its own.
    loss : str, Loss or function, optional
        Loss of a prediction; default: log_loss for classes, squared for quantities.

        "mae" and other names of scikit-learn are known.
    risk : str, RiskEstimator or function
        Estimator of the risk at the target.

        "adjusted" (see `shiftune.risk.RegressionAdjusted`), another of `shiftune.risk.ESTIMATORS`
        ("variance_reduced" is the paper's), a `shiftune.risk.RiskEstimator`, or a function of
        (losses, weights, names) that returns a `RiskEstimate`.
    ratio : str or DensityRatio
        Density ratios, for the risk estimators and training weights that need them.

        See `shiftune.ratio`. "logistic" costs next to nothing and sees shifts of the means;
        "ulsif" also sees other shifts.
    sampler : "gp_lcb", "random", "tpe" or an Optuna sampler
    n_trials : int
        Number of trials, those of earlier runs included.
    timeout : float, optional
        Start no trial after this many seconds; rerun to continue.

        The first trial is run in any case. Of several families, one whose trials take long has
        fewer of its first eight.
    trial_timeout : float, optional
        Seconds that the fits of one trial may take; a longer trial fails, and the search goes on.

        Trials then run in worker processes, which can be stopped, or on a Dask cluster whose
        workers have nannies.
    n_jobs : int
        Number of processes; -1: one per core.

        They share the fits of a trial, and are started when that pays: the first fits of a small
        table run in this process.
    executor : function, optional
        Run trials on a Dask cluster instead of `n_jobs` processes: ``client.get_executor``, or a
        function that calls it with options. It is called once; the client has to last.
    storage : path, Optuna URL or Optuna storage, optional
        A path is a journal file. A run that was killed continues where it stopped; other data or
        other settings are refused, and so is a second search at the same time, unless all `join`.
        (With other storages, one search at a time is the user's promise.)
    join : bool
        Share the trials in the storage with other processes that run the same search. Together they
        run `n_trials`, and take over those of a process that has died. `fit` returns in each of
        them when all are finished. Proposals then depend on the processes' speed.
    predictions_folder : path, optional
        Folder for the predictions of trials. Default: beside a journal, otherwise memory, so that
        every process computes those of the others again at the end.
    shares : three numbers, or a function from the problem to a `Split`, optional
        Of every source for density ratio, training and validation, where `risk` is one of the
        paper's estimators. Default: the paper's .21 / .49 / .30, or 0 / .7 / .3 where no density
        ratio is needed. ("adjusted" trains and evaluates on every row.)
    training_weights : None or "importance"
        Whether the model is trained on rows weighted by their density ratios.
    final : "ensemble" or "best", optional
        What predicts: a weighted mean of the best trials (ensemble) or the best trial alone (best);
        default: ensemble with the risk estimator adjusted, best otherwise.

        An ensemble is evaluated on sites that were held out of the choice of its members
        (`shiftune.predictor`).
    metrics : names, functions or Metrics, optional
        Metrics to estimate beside the loss, such as auc, o_e, sensitivity@0.2, rmse, or a scorer of
        scikit-learn; default: a set for the label.

        In `metrics_`; see `shiftune.metrics.metric_named`.
    importance_timeout : float, optional
        Estimate which columns matter at the target, for the report; start no further column after
        this many seconds. Default: not estimated.

        The table is that of `importance()`, after which reports have it, too. With several targets,
        each has as many seconds; they share the fits.
    callbacks : list of functions, optional
        Called with the study and the finished trial after every trial, as Optuna does;
        ``study.stop()`` in one of them ends the search. (`study` is Optuna's, whose values are
        risks.)
    catch : exception class or tuple of them
        Errors of a model that make a trial fail; others end the search. Default: all. With
        ``catch=()`` the first error is raised.
    progress : bool, optional
        Show a progress bar; default: on terminals.
    random_state : int
        Random seed; the same seed and number of processes give the same result.

        Also when a study is continued (except with "tpe", which then goes on differently). It
        seeds the split, the density ratio, the sampler, and every `random_state` of the model
        that is None. (An Optuna sampler that is passed in keeps its own seed.)
    """

    estimator: Any = option("auto", Role.SEARCH, MODEL, Shell("--model", list[str], panel=None))
    space: Any = option(
        None, Role.SEARCH, None, Shell("--space", dict[str, Any] | None, "FILE", text=SPACE_FILE)
    )
    _: KW_ONLY
    loss: str | Loss | Callable[..., Any] | None = option(
        None, Role.SEARCH, LOSS, Shell("--loss", str | None)
    )
    risk: str | RiskEstimator | Callable[..., RiskEstimate] = option(
        "adjusted", Role.SEARCH, RISK, Shell("--risk", str)
    )
    ratio: str | DensityRatio = option("logistic", Role.SEARCH, RATIO, Shell("--ratio", str))
    sampler: str | BaseSampler = option("gp_lcb", Role.TRIALS, SAMPLER)
    n_trials: int = option(50, Role.TRIALS, at_least(1), Shell("--trials", int, "N", None))
    timeout: float | None = option(
        None, Role.RUN, _seconds, Shell("--timeout", float | None, "SECONDS", RUNNING)
    )
    trial_timeout: float | None = option(
        None, Role.TRIALS, _seconds, Shell("--trial-timeout", float | None, "SECONDS", RUNNING)
    )
    n_jobs: int = option(1, Role.TRIALS, _jobs, Shell("--jobs", int, "N", RUNNING, short="-j"))
    executor: Callable[[], Any] | None = option(None, Role.RUN, _executor)
    storage: str | os.PathLike[str] | BaseStorage | None = option(None, Role.RUN)
    join: bool = option(False, Role.RUN, None, Shell("--join", bool, "", RUNNING, JOIN_FOLDER))
    predictions_folder: str | os.PathLike[str] | None = option(None, Role.RUN)
    shares: tuple[float, float, float] | Callable[[ShiftProblem], Split] | None = option(
        None, Role.SEARCH
    )
    training_weights: str | None = option(None, Role.SEARCH, _weighting)
    final: str | None = option(None, Role.RESULT, FINAL, Shell("--final", str | None))
    metrics: Any = option(None, Role.RESULT, METRIC, Shell("--metric", list[str]))
    importance_timeout: float | None = option(
        None, Role.RESULT, _seconds, Shell("--importance", float | None, "SECONDS")
    )
    callbacks: Sequence[Callable[..., object]] | None = option(None, Role.RUN, _functions)
    catch: type[BaseException] | tuple[type[BaseException], ...] = option(
        CATCH, Role.RUN, _exceptions
    )
    progress: bool | None = option(None, Role.RUN)
    random_state: int = option(0, Role.SEARCH, at_least(0), Shell("--seed", int, "N"))


def options(*roles: Role) -> list[Field[Any]]:
    """Return the options that have one of the roles; all of them without a role."""
    every = fields(SearchOptions)
    return [option for option in every if not roles or option.metadata["role"] in roles]


def in_shell() -> dict[str, tuple[Field[Any], Shell]]:
    """Return the options that the command line has, by their names there."""
    with_flag = [(option, option.metadata["shell"]) for option in options()]
    return {shell.name: (option, shell) for option, shell in with_flag if shell is not None}


def check_each(params: Mapping[str, Any]) -> None:
    """Raise a SettingsError unless every parameter is possible, whatever the others are."""
    for option in options():
        if check := option.metadata["check"]:
            check(params[option.name], option.name)


PARAMETERS = inspect.cleandoc(SearchOptions.__doc__ or "").partition("\n\n")[2]
_WORDS = dict(re.findall(r"^(\w+) : .*\n((?: +.*\n)*)", f"{PARAMETERS}\n", flags=re.MULTILINE))


def first_paragraph(name: str) -> str:
    """Return the beginning of an option's docstring, in one line."""
    return " ".join(_WORDS[name].split())
