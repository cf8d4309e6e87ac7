"""`shiftune models`: models by name, with their search spaces."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from shiftune import _names
from shiftune._wording import check_choice
from shiftune.cli._app import command
from shiftune.cli._options import Json


@command()
def models(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Model whose search space is printed as a file to edit.",
            callback=lambda value: value and check_choice(value, _names.MODELS, "model"),
            autocompletion=lambda incomplete: [
                m for m in _names.MODELS if m.startswith(incomplete)
            ],
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the models by name, with their search spaces.

    For example:

      shiftune models
      shiftune models lightgbm > space.toml     # edit it, then
      shiftune tune ... --model lightgbm --space space.toml

    A space file has a line per hyperparameter; all others keep the model's default.

      learning_rate = { low = 0.01, high = 0.3, log = true }  # decimal numbers
      max_depth = { low = 2, high = 8 }                       # whole numbers
      boosting_type = ["gbdt", "dart"]                        # one of these
      n_estimators = 300                                      # always this
    """
    from shiftune.models import MODELS, space_as_toml, space_entries

    shown = {each: model for each, model in MODELS.items() if name in (None, each)}
    if as_json:
        found = {
            each: {
                "about": model.about,
                "tasks": model.tasks,
                "space": space_entries(model.space()),
            }
            for each, model in shown.items()
        }
        typer.echo(json.dumps(found, indent=2))
    elif name is not None:
        (model,) = shown.values()
        typer.echo(f"# {name}: {model.about}\n{space_as_toml(model.space())}")
    else:
        from shiftune.cli._screen import screen, show_models

        show_models(screen())
