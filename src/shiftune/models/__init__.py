"""Models by name, with columns of any kind as input; search spaces; models in files."""

from shiftune.models import spaces
from shiftune.models._by_name import (
    MODELS,
    KnownModel,
    ReadyModel,
    TableSize,
    expand_auto,
    ready_model,
)
from shiftune.models._space import read_space, space_as_toml, space_entries, space_from_entries
from shiftune.models._storing import TRUSTED, load_model, save_model

__all__ = [
    "MODELS",
    "TRUSTED",
    "KnownModel",
    "ReadyModel",
    "TableSize",
    "expand_auto",
    "load_model",
    "read_space",
    "ready_model",
    "save_model",
    "space_as_toml",
    "space_entries",
    "space_from_entries",
    "spaces",
]
