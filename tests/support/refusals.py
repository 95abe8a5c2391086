"""Assert the code of a refusal; a separate test asserts the refusal's sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from shardclock.api.codes import RefusalCode
from shardclock_server.sql.session import StatementRefused
from shardclock_server.timers.refusal import Refusal


@contextmanager
def refusing(code: RefusalCode, match: str | None = None) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """Assert that the block raises a refusal with this code; `match` is the variable text of its sentence."""
    with pytest.raises((Refusal, StatementRefused), match=match) as refused:
        yield refused
    assert isinstance(refused.value, Refusal | StatementRefused)
    assert refused.value.code == code
