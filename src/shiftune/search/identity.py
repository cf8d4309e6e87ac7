"""Identity of a study, as text: the same for the same settings in any process."""

from __future__ import annotations

import functools
import hashlib
import re
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from shiftune.evaluate.losses import Loss

if TYPE_CHECKING:
    from shiftune.problem import ShiftProblem
    from shiftune.ratio import DensityRatio
    from shiftune.search.evaluation_settings import EvaluationSettings
    from shiftune.search.families import Families
    from shiftune.search.search import ShiftSearch


def stable_repr(thing: Any) -> str:
    """Describe settings, models and functions by what they are, never by where they are stored.

    >>> stable_repr(lambda y, p: y - p) == stable_repr(lambda y, p: y + p)
    False
    >>> from sklearn.linear_model import Ridge
    >>> stable_repr(Ridge()) == stable_repr(Ridge(alpha=1.0)), stable_repr({"b": 1, "a": (2,)})
    (True, '{a: (2), b: 1}')
    """
    if thing is None or isinstance(thing, bool | int | float | str | bytes | np.generic):
        return repr(thing.item() if isinstance(thing, np.generic) else thing)
    if isinstance(thing, dict):
        return (
            "{" + ", ".join(f"{k}: {stable_repr(thing[k])}" for k in sorted(thing, key=str)) + "}"
        )
    if isinstance(thing, list | tuple | set | frozenset):
        parts = [stable_repr(part) for part in thing]
        return "(" + ", ".join(sorted(parts) if isinstance(thing, set | frozenset) else parts) + ")"
    if isinstance(thing, np.ndarray):
        return f"array {thing.shape} {_digest(pd.util.hash_array(np.ravel(thing)).tobytes())}"
    if isinstance(thing, pd.DataFrame | pd.Series):
        return f"table {_digest(pd.util.hash_pandas_object(thing).to_numpy().tobytes())}"
    if isinstance(thing, functools.partial):
        called = (thing.func, thing.args, thing.keywords)
        return "partial " + " ".join(stable_repr(part) for part in called)
    if isinstance(thing, FunctionType):
        closed_over = [cell.cell_contents for cell in thing.__closure__ or ()]
        inside = (
            f"{_code(thing.__code__)} {stable_repr(thing.__defaults__)} {stable_repr(closed_over)}"
        )
        return f"{thing.__module__}.{thing.__qualname__} {_digest(inside.encode())}"
    if isinstance(thing, type | BuiltinFunctionType | np.ufunc):
        return f"{getattr(thing, '__module__', '')}.{thing.__name__}"
    name = f"{type(thing).__module__}.{type(thing).__qualname__}"
    if hasattr(thing, "get_params"):
        return f"{name} {stable_repr(thing.get_params(deep=False))}"
    if isinstance(thing, np.random.RandomState | np.random.Generator):
        return name
    if slots := getattr(type(thing), "__slots__", None):
        return f"{name} {stable_repr({s: getattr(thing, s, None) for s in slots})}"
    if getattr(thing, "__dict__", None):
        return f"{name} {stable_repr(vars(thing))}"
    return re.sub(r" at 0x[0-9a-f]+", "", repr(thing))


def _code(code: CodeType) -> str:
    """The bytecode with its names and constants; those of inner functions too."""
    constants = [_code(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {constants}"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def identity(
    search: ShiftSearch,
    families: Families,
    settings: EvaluationSettings,
    problem: ShiftProblem,
    loss: Loss,
    ratio: DensityRatio,
) -> dict[str, str]:
    """Return what must be the same for trials of one study to be comparable."""
    oracle = problem.oracle if settings.risk.uses_target_labels else None
    return {
        "data": f"{problem.fingerprint()} {stable_repr(oracle and oracle.labels)}",
        "model": stable_repr(_unless_one({n: each.estimator for n, each in families.items()})),
        "space": stable_repr(_unless_one({n: each.space for n, each in families.items()})),
        "loss": stable_repr(loss),
        "risk": stable_repr(search.risk),
        "ratio": stable_repr(ratio) if settings.needs_ratio else "",
        "split": stable_repr((settings.shares, search.random_state)),
        "training weights": stable_repr(search.training_weights),
        "plan": stable_repr(settings.plan),
    }


def _unless_one(by_family: dict[str, Any]) -> Any:
    """Return the value of the one model without a name, or all values by name."""
    return by_family.get("", by_family)
