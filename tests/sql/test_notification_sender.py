"""Listeners and consumers are notified soon after a firing, rarely enough to be cheap."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import Any

import asyncpg
import pytest

import shardclock_server.sql.notification_listener
from shardclock.log.async_link import CHANNEL
from shardclock_server.sql.deliveries.notifications import DELIVERIES
from shardclock_server.sql.log.notifications import notify_of_records
from shardclock_server.sql.notification_listener import NotificationListener
from shardclock_server.sql.notification_sender import (
    GAP_MAX_S,
    GAP_OF_MANY_S,
    GAP_S,
    UNHEARD_S,
    NotificationSender,
    gap_s,
)
from shardclock_server.sql.session import Session, StoreUnavailable
from tests.support.factories import BOUND_S, HolderClient, add_holder, add_timers, query
from tests.support.roles import as_role
from tests.support.shard_pool import pool_of
from tests.support.waiting import eventually

HOLDER = 7


@pytest.mark.parametrize(
    ("took_s", "fired", "heard", "gap"),
    [
        (0.0001, 1, True, GAP_S),
        (0.001, 1, True, 0.008),
        (0.0001, 100, True, GAP_OF_MANY_S),
        (0.01, 1_000, True, 0.08),
        (0.01, 1, True, GAP_MAX_S),
        (1.0, 1, True, 1.0),
        (0.0001, 1, False, UNHEARD_S),
    ],
    ids=[
        "a quick notification",
        "a slower one",
        "many",
        "many and slow",
        "a slow one",
        "a Postgres under load",
        "nobody",
    ],
)
def test_a_notification_is_followed_by_a_pause_of_eight_times_its_duration(
    took_s: float, fired: int, *, heard: bool, gap: float
) -> None:
    assert gap_s(took_s, fired, heard=heard) == pytest.approx(gap)


async def test_many_firings_cause_one_notification_and_the_firings_during_the_pause_cause_a_second_notification(
    dsn: str,
) -> None:
    await query(dsn, "insert into shardclock.consumers (group_name) values ('g')")
    heard: asyncio.Queue[float] = asyncio.Queue()
    listener = await asyncpg.connect(dsn)
    await listener.add_listener(CHANNEL, lambda *_: heard.put_nowait(time.monotonic()))
    sender = NotificationSender(as_role(dsn, "shard"), notify_of_records, of="shard notifications", timeout_s=BOUND_S)
    try:
        for _ in range(50):
            sender.want(1)
        assert await sender.turn() >= GAP_S
        sender.want(3)
        assert await sender.turn() >= GAP_S
        async with asyncio.timeout(BOUND_S):
            await heard.get()
            await heard.get()
        assert heard.empty()
    finally:
        await sender.close()
        await listener.close()


@pytest.mark.parametrize(
    ("due", "leased"),
    [("now() - interval '1 s'", 0), ("now() + interval '1.5 s'", 1)],
    ids=["from the table", "from memory"],
)
async def test_a_shard_notifies_consumers_of_its_firings(dsn: str, due: str, leased: int) -> None:
    await query(dsn, "insert into shardclock.consumers (group_name) values ('g')")
    heard = asyncio.Event()
    listener = await asyncpg.connect(dsn)
    await listener.add_listener(CHANNEL, lambda *_: heard.set())
    async with pool_of(dsn) as pool:
        shard = await pool.start()
        await eventually(lambda: shard._heartbeat.began)
        await add_timers(dsn, 1, due)
        await asyncio.wait_for(heard.wait(), BOUND_S)
        await pool.until_fired(1)
    await listener.close()

    assert shard.stats.claimed == leased


async def test_a_sender_that_is_woken_for_its_end_sends_nothing(dsn: str) -> None:
    sender = NotificationSender(as_role(dsn, "shard"), notify_of_records, of="shard notifications", timeout_s=BOUND_S)
    sender.want(0)
    sender.wake()

    assert await sender.turn() == 0.0
    await sender.close()


async def test_no_statement_that_fires_notifies(dsn: str) -> None:
    await query(dsn, "insert into shardclock.consumers (group_name) values ('g')")
    await add_holder(dsn, HOLDER)
    await add_timers(dsn, 3)
    heard: list[Any] = []
    listener = await asyncpg.connect(dsn)
    await listener.add_listener(CHANNEL, lambda *args: heard.append(args))
    async with HolderClient(dsn, HOLDER) as shard:
        await shard.fire((await shard.take()).claimed)
        await add_timers(dsn, 3)
        assert (await shard.take(fire_overdue=True, scope="outage", floor_s=0.0)).fired == 3
    await listener.execute("select 1")  # earlier notifications have arrived by now
    await listener.close()

    assert heard == []


async def listen_on(listener: NotificationListener) -> None:
    async with asyncio.timeout(10):
        while True:
            await listener.wait(0.05)


async def test_a_silent_connection_is_probed(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
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
