"""The way of the data: each layer imports only from the layers above it."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import shiftune

ROOT = Path(shiftune.__file__).parent
ORDER = [
    "errors",
    "_names",
    "_wording",
    "_options",
    "_interrupts",
    "_files",
    "_provenance",
    "workers",
    "columns",
    "tables",
    "problem",
    "rows",
    "models",
    "ratio",
    "evaluate",
    "risk",
    "predictor",
    "effects",
    "metrics",
    "search",
    "checks",
    "report",
]
BESIDE = {
    "datasets": ["errors", "_names", "_wording", "columns", "problem", "rows", "ratio"],
    "testing": [*ORDER, "datasets"],
    "cli": [*ORDER, "datasets"],
}
# problem.diagnose(), search.plot_*(), checks, summary, report and notebooks look down the
# picture, when the user calls them.
EXCEPTIONS = {
    *(("_options.py", layer) for layer in ("problem", "ratio", "evaluate", "risk")),  # types
    ("problem/_problem.py", "ratio"),
    ("search/_search.py", "report"),
    ("search/_search.py", "checks"),
    ("search/_result.py", "checks"),
    ("search/_result.py", "report"),
}


def imported_layers(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    modules = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("shiftune."):
            modules.add(node.module.split(".")[1])
        if isinstance(node, ast.Import):
            modules |= {a.name.split(".")[1] for a in node.names if a.name.startswith("shiftune.")}
    return modules


@pytest.mark.parametrize("layer", [*ORDER, *BESIDE])
def test_layers(layer):
    allowed = {layer, *(ORDER[: ORDER.index(layer)] if layer in ORDER else BESIDE[layer])}
    files = list((ROOT / layer).rglob("*.py")) or [ROOT / f"{layer}.py"]
    for path in files:
        name = path.relative_to(ROOT).as_posix()
        excused = {used for file, used in EXCEPTIONS if file == name}
        assert imported_layers(path) <= allowed | excused, name


def test_nothing_below_knows_the_search():
    """Not even its type: below it, settings are a value. The command line makes one."""
    knowing = set()
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            imported = isinstance(node, ast.Import | ast.ImportFrom) and any(
                alias.name.split(".")[-1] in ("ShiftSearch", "_search") for alias in node.names
            )
            from_it = isinstance(node, ast.ImportFrom) and (node.module or "").endswith("._search")
            named = isinstance(node, ast.Name) and node.id == "ShiftSearch"
            if imported or from_it or named:
                knowing.add(path.relative_to(ROOT).as_posix())
    assert knowing == {
        "__init__.py",
        "search/__init__.py",
        "search/_search.py",
        "cli/_demo.py",
        "cli/_tune.py",
    }


def module_name(path: Path) -> str:
    parts = ("shiftune", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in ROOT.rglob("*.py")}


def imported_modules(name: str) -> set[str]:
    """Modules that a module imports when it runs, at its top or inside a function."""
    tree = ast.parse(MODULES[name].read_text())
    for_types_only = {
        id(inside)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for statement in node.body
        for inside in ast.walk(statement)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in for_types_only:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inner & set(MODULES) or {str(node.module)}
    return found & set(MODULES) - {name}


def test_no_import_cycles():
    """Nor by imports inside functions, but for the documented conveniences."""
    graph = {}
    for name, path in MODULES.items():
        file = path.relative_to(ROOT).as_posix()
        down = tuple(f"shiftune.{layer}" for origin, layer in EXCEPTIONS if origin == file)
        graph[name] = {used for used in imported_modules(name) if not used.startswith(down)}
    assert len(graph) > 90
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the modules


def test_importing_changes_no_global_setting():
    """scikit-learn's configuration, NumPy's error state and warnings stay as they are."""
    code = (
        "import warnings, numpy as np, sklearn\n"
        "before = sklearn.get_config(), np.geterr(), list(warnings.filters)\n"
        "state = np.random.get_state()[1].sum()\n"
        "import shiftune, shiftune.ratio, shiftune.risk, shiftune.datasets\n"
        "assert before == (sklearn.get_config(), np.geterr(), list(warnings.filters))\n"
        "assert state == np.random.get_state()[1].sum()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_worker_begins_without_what_its_tasks_need():
    code = (
        "import sys, shiftune.workers\n"
        "assert not {'pandas', 'scipy', 'sklearn', 'optuna'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_parts_of_the_package_are_found_without_being_imported():
    code = (
        "import shiftune\n"
        "assert issubclass(shiftune.errors.ProblemError, ValueError)\n"
        "assert shiftune.risk.RegressionAdjusted and not hasattr(shiftune, 'magic')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
