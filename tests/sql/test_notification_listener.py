"""A listener notices that its connection was cut without an error, and listens again."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

import shardclock_server.sql.notification_listener
from shardclock_server.sql.deliveries.notifications import DELIVERIES
from shardclock_server.sql.notification_listener import NotificationListener
from shardclock_server.sql.session import Session, StoreUnavailable


async def listen_on(listener: NotificationListener) -> None:
    async with asyncio.timeout(10):
        while True:
            await listener.wait(0.05)


async def test_a_silent_connection_is_asked_for_an_answer(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shardclock_server.sql.notification_listener, "SILENCE_S", 0.05)
    async with Session(dsn, application="test", timeout_s=1.5) as session:
        listener = NotificationListener(session, DELIVERIES)
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
