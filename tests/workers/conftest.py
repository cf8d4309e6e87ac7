"""Folders for tests with real processes."""

from __future__ import annotations

import pytest


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The folder for temporary files, empty."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.fixture
def notes(tmp_path):
    folder = tmp_path / "diary"
    folder.mkdir()
    return folder
