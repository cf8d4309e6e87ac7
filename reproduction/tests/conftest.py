from __future__ import annotations

import numpy as np
import pytest
from reproduction.commands import paper
from typer.testing import CliRunner


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


@pytest.fixture
def run(folder):
    """Run a command in this process."""

    def call(*args, code=0):
        done = CliRunner().invoke(paper, [str(arg) for arg in args])
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == code, done.output
        assert "Traceback" not in done.output
        return done

    return call
