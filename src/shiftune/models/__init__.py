"""Models by name, with columns of any kind as input; models in files; `spaces` to search in."""

from shiftune.models._by_name import (
    MODELS,
    KnownModel,
    ReadyModel,
    TableSize,
    expand_auto,
    ready_model,
)
from shiftune.models._storing import TRUSTED, load_model, save_model

__all__ = [
    "MODELS",
    "TRUSTED",
    "KnownModel",
    "ReadyModel",
    "TableSize",
    "expand_auto",
    "load_model",
    "ready_model",
    "save_model",
]
