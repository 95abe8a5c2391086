"""Lend tests a directory for a server."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def place() -> Iterator[Path]:
    """Give a directory that a server may use."""
    path = Path(tempfile.mkdtemp(prefix="shardclock-test-"))
    yield path
    shutil.rmtree(path)
