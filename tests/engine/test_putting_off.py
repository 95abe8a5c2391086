"""Prove that its error alone decides how long a signal is put off, and when it is given up."""

from __future__ import annotations

import pytest

from shardclock_server.bpmn.step import StateTooNew
from shardclock_server.engine.definitions import Gone, ModelRefused
from shardclock_server.engine.inbox import UnknownKind
from shardclock_server.engine.putting_off import NEVER, TOO_NEW_TRIES_MAX, TRIES_MAX, PutOff, put_off_after
from shardclock_server.sql.session import StatementRefused, StoreTooSlow


@pytest.mark.parametrize(
    ("error", "attempts", "put_off"),
    [
        (ValueError("no number"), 0, PutOff("no number", 0.5, TRIES_MAX)),
        (Gone("there is no instance 7"), 3, PutOff("there is no instance 7", 0.5, TRIES_MAX)),
        (StatementRefused("too long", sqlstate="22001"), 0, PutOff("too long", 0.5, TRIES_MAX)),
        (KeyError("a"), 0, PutOff("KeyError: 'a'", 0.5, TRIES_MAX)),
        (StoreTooSlow("27 s"), 0, PutOff("27 s", 1.0, NEVER)),
        (StoreTooSlow("27 s"), 9, PutOff("27 s", 60.0, NEVER)),
        (UnknownKind("later"), 0, PutOff("later", 1.0, TOO_NEW_TRIES_MAX, to_newer=True)),
        (ModelRefused("unknown element"), 9, PutOff("unknown element", 60.0, TOO_NEW_TRIES_MAX, to_newer=True)),
        (StateTooNew("format 9"), 1, PutOff("format 9", 2.0, TOO_NEW_TRIES_MAX, to_newer=True)),
    ],
    ids=lambda it: type(it).__name__ if isinstance(it, Exception) else None,
)
def test_an_error_decides(error: Exception, attempts: int, put_off: PutOff) -> None:
    assert put_off_after(error, attempts) == put_off
