"""A listener whose connection was cut without a word finds that out, and listens again."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

import shardclock_server.sql.hints
from shardclock_server.sql.deliveries.hints import DELIVERIES
from shardclock_server.sql.hints import HintListener
from shardclock_server.sql.session import Session, StoreUnavailable


async def listen_on(listener: HintListener) -> None:
    """Wait for hints, again and again."""
    async with asyncio.timeout(10):
        while True:
            await listener.wait(0.05)


async def test_a_connection_that_has_fallen_silent_is_asked_for_an_answer(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shardclock_server.sql.hints, "SILENCE_S", 0.05)
    async with Session(dsn, application="test", timeout_s=0.5) as session:
        listener = HintListener(session, DELIVERIES)
        assert await listener.wait(0.01), "it may have missed one before it listened"
        listener.forget()
        for _ in range(3):
            assert not await listener.wait(0.05), "its connection answers"

        async with session.connection() as connection:
            backend = connection.get_server_pid()
        os.kill(backend, signal.SIGSTOP)
        try:
            with pytest.raises(StoreUnavailable):
                await listen_on(listener)
        finally:
            os.kill(backend, signal.SIGCONT)

        assert await listener.wait(0.05), "on a new connection"
