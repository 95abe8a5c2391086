"""The error of a signal decides its delay and its number of tries."""

from __future__ import annotations

import pytest

from shardclock_server.bpmn.step import StateTooNew
from shardclock_server.engine.definitions import Missing, ModelRefused
from shardclock_server.engine.inbox import UnknownKind
from shardclock_server.engine.retry_policy import NEVER, TOO_NEW_TRIES_MAX, TRIES_MAX, Deferral, deferral_after
from shardclock_server.sql.session import StatementRefused, StoreTooSlow


@pytest.mark.parametrize(
    ("error", "attempts", "deferral"),
    [
        (ValueError("no number"), 0, Deferral("no number", 0.5, TRIES_MAX)),
        (Missing("there is no instance 7"), 3, Deferral("there is no instance 7", 0.5, TRIES_MAX)),
        (StatementRefused("too long", sqlstate="22001"), 0, Deferral("too long", 0.5, TRIES_MAX)),
        (KeyError("a"), 0, Deferral("KeyError: 'a'", 0.5, TRIES_MAX)),
        (StoreTooSlow("27 s"), 0, Deferral("27 s", 1.0, NEVER)),
        (StoreTooSlow("27 s"), 9, Deferral("27 s", 60.0, NEVER)),
        (UnknownKind("later"), 0, Deferral("later", 1.0, TOO_NEW_TRIES_MAX, needs_newer_release=True)),
        (
            ModelRefused("unknown element"),
            9,
            Deferral("unknown element", 60.0, TOO_NEW_TRIES_MAX, needs_newer_release=True),
        ),
        (StateTooNew("format 9"), 1, Deferral("format 9", 2.0, TOO_NEW_TRIES_MAX, needs_newer_release=True)),
    ],
    ids=lambda it: type(it).__name__ if isinstance(it, Exception) else None,
)
def test_the_error_decides_the_delay_and_the_number_of_tries(
    error: Exception, attempts: int, deferral: Deferral
) -> None:
    assert deferral_after(error, attempts) == deferral
