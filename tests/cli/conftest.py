"""A shell on an empty database."""

from __future__ import annotations

import pytest

from tests.support.program import Shell


@pytest.fixture
def shell(dsn: str, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Run commands in this process, on a migrated, empty database."""
    return Shell(dsn, capsys)
