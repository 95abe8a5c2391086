"""Lend tests a directory for a server."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.memory import IN_MEMORY


@pytest.fixture
def place() -> Iterator[Path]:
    """Give a directory that a server may use."""
    path = Path(tempfile.mkdtemp(prefix="shardclock-test-", dir=IN_MEMORY))
    yield path
    shutil.rmtree(path)
