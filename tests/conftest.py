"""Fixtures shared by the tests."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def root() -> Path:
    "The repository."
    return ROOT


@pytest.fixture(scope="session")
def datasets() -> Path:
    "The folder of real corpora, kept beside the project and never inside it; skips where it is absent."
    folder = Path(os.environ.get("MHBENCH_DATASETS", ROOT.parent / "shared" / "datasets"))
    if not folder.is_dir():
        pytest.skip(f"no real corpora at {folder}: set MHBENCH_DATASETS to run this test")
    return folder
