"""`shiftune models`: the models that go by name, and their spaces."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from shiftune.cli.app import command
from shiftune.cli.options import Json


@command(rich_help_panel="Your data")
def models(
    name: Annotated[
        str | None,
        typer.Argument(help="Print this model's space as a file to edit.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the models that go by name, and where their hyperparameters are looked for.

    For example:

      shiftune models
      shiftune models lightgbm > space.toml     # edit it, then
      shiftune tune ... --model lightgbm --space space.toml

    A space file has a line per hyperparameter. What is not in it stays at the model's default.

      learning_rate = { low = 0.01, high = 0.3, log = true }  # decimal numbers
      max_depth = { low = 2, high = 8 }                       # whole numbers
      boosting_type = ["gbdt", "dart"]                        # one of these
      n_estimators = 300                                      # always this
    """
    from shiftune.models import MODELS, space_as_toml
    from shiftune.spelling import check_choice

    if name is not None:
        model = MODELS[check_choice(name, MODELS, "model")]
        if not as_json:
            typer.echo(f"# {name}: {model.about}\n{space_as_toml(model.space())}")
            return
    if as_json:
        shown = [name] if name is not None else list(MODELS)
        typer.echo(json.dumps({each: _record(each) for each in shown}, indent=2))
        return
    from shiftune.cli.screen import screen, show_models

    show_models(screen())


def _record(name: str) -> dict[str, object]:
    import tomllib

    from shiftune.models import MODELS, space_as_toml

    model = MODELS[name]
    space = tomllib.loads(space_as_toml(model.space()))
    return {"about": model.about, "tasks": model.tasks, "space": space}
