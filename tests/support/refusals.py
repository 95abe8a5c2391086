"""Assert the code of a refusal: its sentence has a separate test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from shardclock.api.codes import RefusalCode
from shardclock_server.sql.session import StatementRefused
from shardclock_server.timers.refusal import Refusal


@contextmanager
def refusing(code: RefusalCode, match: str | None = None) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """Assert that the block is refused with this code; `match` is a part of the sentence that varies."""
    with pytest.raises((Refusal, StatementRefused), match=match) as refused:
        yield refused
    assert isinstance(refused.value, Refusal | StatementRefused)
    assert refused.value.code == code
