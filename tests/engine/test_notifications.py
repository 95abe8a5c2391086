"""Notifications wake engines for signals, and workers for service tasks, without a poll."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import asyncpg
import pytest

import shardclock_server.engine.engine
from shardclock_server.engine.engine import IDLE_AFTER_S, Engine
from shardclock_server.engine.settings import EngineSettings
from shardclock_server.engine.stepped import SteppedEngine
from shardclock_server.service import processes
from shardclock_server.sql.cluster.holders import ENGINE
from shardclock_server.sql.deliveries.notifications import DELIVERIES, SIGNALS, notify_of_deliveries
from shardclock_server.sql.session import Session
from tests.support.bpmn import job, model
from tests.support.deliveries import add_deliveries, declare
from tests.support.factories import BOUND_S, add_holder, query
from tests.support.plans import prepare
from tests.support.roles import as_role
from tests.support.shard_pool import incarnation
from tests.support.waiting import eventually

NO_POLLS = EngineSettings(signal_poll_s=600.0, signal_poll_idle_s=600.0, signal_stripes=1)
USER = model('<startEvent id="s"/><userTask id="u"/><endEvent id="e"/>', connected="s>u u>e")
PACK = model(f'<startEvent id="s"/>{job("pack")}<endEvent id="e"/>', connected="s>pack pack>e", process_id="packing")


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an engine wait for a notification after one empty turn."""
    monkeypatch.setattr(shardclock_server.engine.engine, "BUSY_PAUSE_S", 600.0)


@asynccontextmanager
async def engine_running(dsn: str) -> AsyncIterator[Engine]:
    """Run one engine that polls at its start, and then only after notifications."""
    it = Engine(replace(incarnation(), role=ENGINE), NO_POLLS, as_role(dsn, "shard"))
    await add_holder(dsn, it.holder, role=ENGINE)
    running = asyncio.create_task(it.run())
    try:
        await eventually(lambda: it._heartbeat.began and it._notifications._on is not None)
        await eventually(
            lambda: not it._soon[0].is_set() and it._pauses_s[0] > shardclock_server.engine.engine.BUSY_PAUSE_S
        )
        yield it
    finally:
        await it.drain()
        await asyncio.wait_for(running, BOUND_S)


@asynccontextmanager
async def heard(dsn: str) -> AsyncIterator[list[str]]:
    channels: list[str] = []
    connection = await asyncpg.connect(dsn, timeout=BOUND_S)
    try:
        for channel in (DELIVERIES, SIGNALS):
            await connection.add_listener(channel, lambda _, __, said, ___: channels.append(said))
        yield channels
    finally:
        await connection.close(timeout=BOUND_S)


async def test_a_signal_notifies_only_engines_and_another_delivery_only_workers(dsn: str) -> None:
    async with heard(dsn) as channels, Session(as_role(dsn, "shard"), application="test") as session:
        assert not await notify_of_deliveries(session), "nobody is there"

        await add_deliveries(dsn, 1, "process:instance")
        assert await notify_of_deliveries(session)
        await eventually(lambda: channels == [SIGNALS])

        await query(dsn, "delete from shardclock.deliveries")
        await declare(dsn)
        await add_deliveries(dsn, 1)
        assert await notify_of_deliveries(session)
        await eventually(lambda: channels == [SIGNALS, DELIVERIES])


async def test_the_check_for_other_targets_reads_one_row_for_any_number_of_signals(dsn: str) -> None:
    await add_deliveries(dsn, 5_000, "process:instance")
    await query(dsn, "analyze shardclock.deliveries")
    notification = await prepare(dsn, "notify_of_deliveries")

    reading = await notification.explain(touched=True, table="deliveries")
    await notification.connection.close()

    assert reading.rows <= 2


async def test_if_there_are_only_signals_no_workers_are_wanted(dsn: str) -> None:
    await add_deliveries(dsn, 1, "process:instance")
    wanted = "select shardclock.has_targets() as wanted"
    assert [row["wanted"] for row in await query(dsn, wanted)] == [False]

    for target in ("a target before it", "the target after it"):
        await add_deliveries(dsn, 1, target)
        assert [row["wanted"] for row in await query(dsn, wanted)] == [True]
        await query(dsn, "delete from shardclock.deliveries where target = $1", target)


@pytest.mark.usefixtures("no_pauses")
async def test_a_notification_begins_an_instance_without_a_poll(dsn: str) -> None:
    async with Session(as_role(dsn, "scheduler"), application="client") as session:
        await processes.deploy(session, USER, resource="p.bpmn")
        async with engine_running(dsn) as it, Session(as_role(dsn, "shard"), application="shard") as shard:
            await processes.start(session, "p")
            await notify_of_deliveries(shard)
            await eventually(lambda: it.stats.begun == 1)


@pytest.mark.usefixtures("no_pauses")
async def test_an_engine_notifies_workers_of_its_service_tasks_and_not_of_other_nodes(dsn: str) -> None:
    await declare(dsn, "pack")
    async with Session(as_role(dsn, "scheduler"), application="client") as session, heard(dsn) as channels:
        for file in (USER, PACK):
            await processes.deploy(session, file, resource="p.bpmn")
        async with engine_running(dsn) as it:
            await processes.start(session, "p")
            it._poll_soon()
            await eventually(lambda: it.stats.begun == 1)
            assert DELIVERIES not in channels

            await processes.start(session, "packing")
            it._poll_soon()
            await eventually(lambda: DELIVERIES in channels)


async def test_the_pause_is_short_after_a_signal_and_doubles_with_each_empty_turn(dsn: str) -> None:
    it = SteppedEngine(replace(incarnation(), role=ENGINE), EngineSettings(), as_role(dsn, "shard"))
    await add_holder(dsn, it.holder, role=ENGINE)
    async with Session(as_role(dsn, "scheduler"), application="client") as session:
        await processes.deploy(session, USER, resource="p.bpmn")
        await processes.start(session, "p")
    await it.begin()

    pauses = [await it.step_turn(0) for _ in range(6)]
    it._last_signal_s -= IDLE_AFTER_S
    idle = await it.step_turn(0)
    await it.end()

    assert pauses == pytest.approx([0.0, 0.004, 0.008, 0.01, 0.01, 0.01])
    assert idle == EngineSettings().signal_poll_idle_s
