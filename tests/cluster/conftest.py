"""Lend tests a directory for a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.memory import directory


@pytest.fixture
def place() -> Iterator[Path]:
    """Give a directory that a server may use."""
    with directory() as path:
        yield path
