"""Numbers and names as a reader wants to see them, and errors that suggest the nearest spelling."""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from shiftune import _names
from shiftune._names import LossName
from shiftune.errors import ProblemError, SettingsError

_Choice = TypeVar("_Choice")

# Longer lists are cut off, on every page and screen.
MOST_SITES, MOST_COLUMNS, MOST_STEPS, MOST_CLASSES = 24, 20, 3, 4
NOT_ESTIMABLE = "cannot be estimated from these sites"

# Control characters but tabs and ends of lines, and those that change the direction of writing.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def shortened(text: str, most: int = 24) -> str:
    """Cut a long name in its middle: names of one table often differ in their last letters."""
    if len(text) <= most:
        return text
    tail = (most - 1) * 2 // 5
    return f"{text[: most - 1 - tail]}…{text[len(text) - tail :]}"


def printable(text: str) -> str:
    """Show characters that control a terminal, or turn its text round, as codes."""
    return _CONTROLS.sub(lambda control: control[0].encode("unicode_escape").decode(), text)


def number(value: Any, digits: int = 3) -> str:
    """Write a number with a few digits (12,346; 4.77 billion); anything else as it is."""
    if not isinstance(value, float):
        return str(value)
    unit, word = scaled(value)
    text = f"{value / unit:.{digits}g}"
    if math.isfinite(value) and 10**digits <= abs(float(text)) < 10**9:
        text = f"{value / unit:{_commas(value / unit)}.0f}"
    return f"{text} {word}".rstrip()


def scaled(size: float) -> tuple[float, str]:
    """Return the unit in which numbers of a size are read, and its word: 1e9, billion."""
    for unit, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if unit <= abs(size) < 1e15:
            return unit, word
    return 1.0, ""


def _commas(size: float) -> str:
    """Return how thousands are marked: by commas from 10,000 on."""
    return "," if abs(size) >= 10_000 else ""


def figures(*values: float) -> list[str]:
    """Write an estimate and the ends of its interval with the decimals that its width deserves."""
    return [written_like(value, (min(values), max(values))) for value in values]


def written_like(value: float, interval: tuple[float, float]) -> str:
    """Write a number with as many decimals as the width of an interval deserves."""
    width, size = interval[1] - interval[0], max(abs(interval[0]), abs(interval[1]))
    if not math.isfinite(width) or width <= 0 or not 1e-4 <= size < 1e15:
        return f"{value:.3g}"
    unit, word = scaled(size)
    decimals = min(max(1 - math.floor(math.log10(width / unit)), 0), 8)
    text = f"{value / unit:{_commas(size / unit)}.{decimals}f}"
    if not text.strip("-0.,"):
        # A whole number beside a wide interval is 0 only if it is next to nothing.
        few = decimals == 0 and abs(value) >= width / 1000
        text = f"{value / unit:.1g}" if few else text.removeprefix("-")
    return f"{text} {word}".rstrip()


def with_interval(value: float, interval: tuple[float, float]) -> str:
    """Write an estimate with its interval: 4.8 billion (4.1 to 5.4)."""
    middle, low, high = figures(value, *interval)
    return f"{middle} ({low.partition(' ')[0]} to {high.partition(' ')[0]})"


def interval_in_words(low: float | None, high: float | None) -> str:
    """Write the ends of an interval, with their unit once: 0.7 to 3.8 billion."""
    if low is None or high is None or not math.isfinite(high - low):
        return "unknown"
    first, last = figures(low, high)
    bare, _, unit = first.partition(" ")
    return f"{bare if last.endswith(f' {unit}') else first} to {last}"


def estimate_in_words(record: Mapping[str, Any]) -> str:
    """Write an estimate of a document, or that there is none: 0.25 (0.21 to 0.29)."""
    if not record.get("estimable", True):
        return NOT_ESTIMABLE
    value = record["value"]
    if value is None or "low" not in record:
        return "?" if value is None else number(value)
    ends = record["low"], record["high"]
    if None in ends:
        return f"{number(value, 4)} (? to ?)"
    return with_interval(value, ends)


def figure_in_words(figure: Mapping[str, Any]) -> tuple[str, str, str]:
    """Write a figure of a document: its value, its interval, and what stands beside it."""
    if figure["value"] is None:
        return "?", "", figure["note"]
    # An uninformative interval deserves no decimals, the sites do.
    first, last = ("low", "high") if figure["estimable"] else ("lowest", "highest")
    low, high = ends = figure[first], figure[last]
    complete = None not in ends
    value, constant, lowest, highest = (
        "" if value is None else written_like(value, ends) if complete else number(value)
        for value in (figure[name] for name in ("value", "constant", "lowest", "highest"))
    )
    beside = [f"{figure['constant_is']} {constant}"] if constant else []
    if lowest:
        sites = figure["lowest_site"], figure["highest_site"]
        beside.append(f"sites {lowest} ({sites[0]}) to {highest} ({sites[1]})")
    if not figure["estimable"]:
        return "?", NOT_ESTIMABLE, "; ".join(beside)
    return value, interval_in_words(low, high), "; ".join(beside)


def lower_by(gain: Mapping[str, Any]) -> str:
    """Write how far a loss is lower, or higher where the gain is below 0."""
    if gain["value"] >= 0:
        return f"lower by {estimate_in_words(gain)}"
    ends = {"low": gain["high"], "high": gain["low"]}
    negated = {name: None if end is None else -end for name, end in ends.items()}
    return f"higher by {estimate_in_words({'value': -gain['value'], **negated})}"


def updated_model(record: Mapping[str, Any]) -> str:
    """Describe which model an update is of: the present one, or one of fewer trials."""
    which = "present" if record["current"] else f"earlier, {count(record['of_trials'], 'trial')}"
    return which if record["used"] else f"{which}, labels not used"


def params_in_words(params: Mapping[str, Any]) -> str:
    """Return parameters in one line, by short names."""
    short = short_names(params)
    words = [f"{short[name]} {number(value)}" for name, value in params.items()]
    return ", ".join(words) or "default parameters"


def most_important(columns: Sequence[Mapping[str, Any]]) -> str:
    """Name the columns that matter most, with the importance of each."""
    estimates = [
        {**c, "value": c["importance"]} for c in columns[:3] if c["importance"] is not None
    ]
    return ", ".join(f"{column['column']} {estimate_in_words(column)}" for column in estimates)


def loss_in_words(name: str) -> str:
    """Name a loss in a sentence: squared error, log loss."""
    words = {"squared": "squared error", "absolute": "absolute error"}
    words |= {"zero_one": "error rate", "brier": "Brier score"}
    return words.get(name, name.replace("_", " "))


def metric_in_words(name: str) -> str:
    """Name a metric in a table: AUC, O:E, sensitivity at 0.2."""
    words = {"auc": "AUC", "o_e": "O:E", "rmse": "RMSE", "mae": "MAE", "r2": "R2", "f1": "F1"}
    return words.get(name, loss_in_words(name).replace("@", " at "))


def percent(share: float | None) -> str:
    """Write a share: 22 %, less than 1 %, or "?" where it is unknown."""
    if share is None or math.isnan(share):
        return "?"
    return "less than 1 %" if 0 < share < 0.01 else f"{100 * share:.0f} %"


def count(n: int, thing: str) -> str:
    """Write how many there are: 1 row, 12,345 rows."""
    return f"{n:,} {thing}{'' if n == 1 else 's'}"


def listed(names: Iterable[str], most: int = 4, *, quoted: bool = True) -> str:
    """Write names in a sentence: 'B', 'C', 'D' and 3 more."""
    texts = [repr(str(name)) if quoted else name for name in names]
    parts = texts if len(texts) <= most else [*texts[:most], f"{len(texts) - most} more"]
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Return parameters' names without the steps of the pipeline, where that is clear enough."""
    last = {name: name.rpartition("__")[2] for name in names}
    seen = Counter(last.values())
    return {name: short if seen[short] == 1 else name for name, short in last.items()}


def how_to_install(extra: str) -> str:
    """Return the command that installs an extra of `pyproject.toml`."""
    # shiftune is not on a package index, so the command is for a clone of its repository.
    return f"pip install '.[{extra}]' in a clone of shiftune"


def alike(name: str, names: Iterable[str], *, most: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return the names with the most similar spelling, the nearest first.

    Upper and lower case count as different only while a similar name is found that way.
    """
    texts = list(names)
    lower = {text.lower(): text for text in reversed(texts)}
    near = difflib.get_close_matches(name, texts, most, cutoff)
    return near or [
        lower[text] for text in difflib.get_close_matches(name.lower(), lower, most, cutoff)
    ]


def hint(name: str, names: Iterable[str]) -> str:
    """Ask for the nearest spelling, or list the names where none is near."""
    texts = list(names)
    near = alike(name, texts)
    return f"did you mean {near[0]!r}?" if near else f"choose from {listed(texts, 12)}"


def check_choice(
    name: object,
    choices: Iterable[_Choice],
    what: str,
    error: type[ProblemError] = SettingsError,
) -> _Choice:
    """Return `name` if it is one of the choices, else raise an error with the nearest spelling."""
    listed_choices: list[Any] = list(choices)
    if name in listed_choices:
        choice: _Choice = listed_choices[listed_choices.index(name)]
        return choice
    texts = [str(choice) for choice in listed_choices]
    if str(name) in texts:
        other = listed_choices[texts.index(str(name))]
        advice = f"did you mean {other!r} ({type(other).__name__}, not text)?"
    else:
        advice = hint(str(name), texts)
    raise error(f"there is no {what} {str(name)!r}; {advice}")


def check_different(names: Sequence[str], what: str) -> None:
    """Raise a SettingsError if a name is given twice."""
    for place, name in enumerate(names):
        if name in names[:place]:
            raise SettingsError(f"the {what} {name!r} is given twice; name each {what} once")


_OTHER_NAMES: dict[LossName, tuple[str, ...]] = {
    "log_loss": ("logloss", "neg_log_loss", "cross_entropy", "binary_logloss", "multi_logloss"),
    "brier": ("brier_score", "brier_score_loss", "neg_brier_score"),
    "zero_one": ("accuracy", "error", "error_rate", "zero_one_loss"),
    "squared": ("mse", "mean_squared_error", "neg_mean_squared_error", "squared_error", "l2"),
    "absolute": ("mae", "mean_absolute_error", "neg_mean_absolute_error", "absolute_error", "l1"),
    "pinball": ("quantile", "mean_pinball_loss"),
}
# Metrics, and the loss that ranks models alike or, on real tables, chooses as good ones
# (`benchmarks/results/metrics.md`).
_METRICS_ONLY = {"r2": "squared"} | dict.fromkeys(
    ("auc", "roc_auc", "average_precision", "balanced_accuracy", "f1"), "log_loss"
)
# Their minimum is that of the squared error.
ROOTS = ("rmse", "root_mean_squared_error", "neg_root_mean_squared_error")


def loss_name(loss: object) -> LossName:
    """Return our name of a loss, from ours or that of another library."""
    if loss in _METRICS_ONLY:
        raise SettingsError(
            f"{loss} cannot be tuned, since it is not a mean over rows; use "
            f"loss={_METRICS_ONLY[loss]!r}, which chooses as good models, and add "
            f"metrics=[{loss!r}] (--metric {loss})"
        )
    if loss in ROOTS:
        return "squared"
    for name, others in _OTHER_NAMES.items():
        if loss in others:
            return name
    return check_choice(loss, _names.LOSSES, "loss")
