"""An instance that is cancelled before an engine processes its start never starts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import structlog

from shardclock_server.engine.runner import SignalRunner
from shardclock_server.engine.stats import EngineStats
from shardclock_server.service import processes
from shardclock_server.sql.deliveries.dead_letters import redrive_dead_letters
from shardclock_server.sql.processes.instances import cancel_instance, set_variables, steps_of
from shardclock_server.sql.session import Session
from tests.support.bpmn import model
from tests.support.factories import BOUND_S, add_holder, query

USER = model('<startEvent id="s"/><userTask id="u"/>', connected="s>u")
TRIES = 10


async def test_an_instance_that_is_cancelled_before_its_start_is_given_up_never_begins(dsn: str) -> None:
    await add_holder(dsn, 1, 0, 1)
    async with Session(dsn, application="test") as session, Session(dsn, application="engine") as steps:
        await processes.deploy(session, USER, resource="p.bpmn")
        engine = SignalRunner(steps, 1, EngineStats(), batch=500, log=structlog.get_logger())
        # Variables may have 1 MiB, and a state may have 1 MiB; this state with its tokens is larger.
        key = await processes.start(session, "p", variables={"a": "x" * 1_048_560})
        await engine.turn()
        assert (await processes.find(session, key)).found.state == "STARTING"

        assert await cancel_instance(session, key) == "SENT"
        for _ in range(TRIES):
            while await engine.turn():
                pass
            await query(dsn, "update shardclock.deliveries set next_attempt_at = now()")

        assert (await processes.find(session, key)).found.state == "CANCELED"
        assert await redrive_dead_letters(session, [key]) == []
        assert (
            await query(dsn, "select 1 from shardclock.deliveries union all select 1 from shardclock.dead_letters")
            == []
        )


@asynccontextmanager
async def start_due_later(dsn: str) -> AsyncIterator[tuple[Session, SignalRunner, int]]:
    """Yield an engine, and an instance with a start that is due in a minute, as if many starts had been redriven."""
    await add_holder(dsn, 1, 0, 1)
    async with Session(dsn, application="test") as session, Session(dsn, application="engine") as steps:
        await processes.deploy(session, USER, resource="p.bpmn")
        engine = SignalRunner(steps, 1, EngineStats(), batch=500, log=structlog.get_logger())
        key = await processes.start(session, "p")
        await query(dsn, "update shardclock.deliveries set next_attempt_at = now() + interval '1 minute'")
        yield session, engine, key


async def test_a_cancelled_instance_with_a_later_start_ends_immediately(dsn: str) -> None:
    async with start_due_later(dsn) as (session, engine, key):
        assert await cancel_instance(session, key) == "SENT"

        while await engine.turn():
            pass
        assert await query(dsn, "select 1 from shardclock.deliveries") == []
        assert await query(dsn, "select 1 from shardclock.dead_letters") == []
        assert (await processes.find(session, key)).found.state == "CANCELED"


async def test_deferred_cancelled_starts_delay_no_cancellation_of_a_running_instance(dsn: str) -> None:
    await add_holder(dsn, 1, 0, 1)
    async with Session(dsn, application="test") as session, Session(dsn, application="engine") as steps:
        await processes.deploy(session, USER, resource="p.bpmn")
        stats = EngineStats()
        engine = SignalRunner(steps, 1, stats, batch=500, log=structlog.get_logger())
        running = await processes.start(session, "p")
        await engine.turn()
        await query(dsn, "select shardclock.start_process('p') from generate_series(1, 200)")
        later = "next_attempt_at = now() + interval '1 hour', failed_attempts = 1"
        starts = await query(dsn, f"update shardclock.deliveries set {later} returning timer_key")
        await query(dsn, "select shardclock.cancel_instance(timer_key) from shardclock.deliveries order by timer_key")
        assert await cancel_instance(session, running) == "SENT"

        while await engine.turn():
            pass

        assert (await processes.find(session, running)).found.state == "CANCELED"
        ended = "select instance_key from shardclock.instances where outcome = 'CANCELED' and instance_key <> $1"
        assert {row["instance_key"] for row in await query(dsn, ended, running)} == {row["timer_key"] for row in starts}
        assert await query(dsn, "select from shardclock.deliveries") == []
        assert await query(dsn, "select from shardclock.tasks") == []
        assert (stats.begun, stats.ended["canceled"]) == (1, 201)


async def test_variables_for_an_instance_with_a_later_start_wait_for_the_start(dsn: str) -> None:
    async with start_due_later(dsn) as (session, engine, key):
        assert await set_variables(session, key, {"a": 1})
        while await engine.turn():
            pass
        assert await query(dsn, "select 1 from shardclock.deliveries where failed_attempts > 0") == []

        await query(dsn, "update shardclock.deliveries set next_attempt_at = created_at where timer_key = $1", key)
        while await engine.turn():
            pass
        assert processes.variables_of(await processes.find(session, key)) == {"a": 1}


@asynccontextmanager
async def start_given_up(dsn: str, *, timeout_s: float = 10.0) -> AsyncIterator[tuple[Session, SignalRunner, int]]:
    """Yield an engine, and an instance: its start is a dead letter, and a client has cancelled it afterwards."""
    await add_holder(dsn, 1, 0, 1)
    async with (
        Session(dsn, application="test") as session,
        Session(dsn, application="engine", timeout_s=timeout_s) as steps,
    ):
        await processes.deploy(session, USER, resource="p.bpmn")
        engine = SignalRunner(steps, 1, EngineStats(), batch=500, log=structlog.get_logger())
        key = await processes.start(session, "p", variables={"a": "x" * 1_048_560})
        for _ in range(TRIES):
            await engine.turn()
            await query(dsn, "update shardclock.deliveries set next_attempt_at = now()")
        assert [row["timer_key"] for row in await query(dsn, "select timer_key from shardclock.dead_letters")] == [key]
        said = '{"kind": "cancel", "by": "ann", "key_prefix": "k_12"}'
        await query(dsn, "select shardclock.send_signal($1, 'default', $2::jsonb)", key, said)
        yield session, engine, key


async def test_a_locked_start_delays_no_other_instance(dsn: str) -> None:
    async with start_given_up(dsn, timeout_s=3 * BOUND_S) as (session, engine, key):
        other = await processes.start(session, "p")
        somebody = await asyncpg.connect(dsn, timeout=BOUND_S)
        try:
            await somebody.execute("begin")
            await somebody.execute("select from shardclock.dead_letters where timer_key = $1 for update", key)
            async with asyncio.timeout(BOUND_S):
                for _ in range(3):
                    await engine.turn()
        finally:
            await somebody.close(timeout=BOUND_S)

        assert (await processes.find(session, other)).found.state == "RUNNING"
        (cancellation,) = await query(dsn, "select failed_attempts from shardclock.deliveries")
        assert cancellation["failed_attempts"] == 0
        await engine.turn()
        assert (await processes.find(session, key)).found.state == "CANCELED"


async def test_an_unreadable_start_stops_no_engine(dsn: str) -> None:
    async with start_given_up(dsn) as (session, engine, key):
        await query(dsn, """update shardclock.dead_letters set payload = '{"kind": "begin", "definition": "x"}'""")
        other = await processes.start(session, "p")

        for _ in range(TRIES):
            await engine.turn()
            await query(dsn, "update shardclock.deliveries set next_attempt_at = now()")

        assert (await processes.find(session, other)).found.state == "RUNNING"
        assert len(await query(dsn, "select 1 from shardclock.dead_letters")) == 2, "the cancellation was given up, too"
        assert await query(dsn, "select 1 from shardclock.instances where instance_key = $1", key) == []


async def test_the_records_name_the_client_that_cancelled_and_not_the_engine(dsn: str) -> None:
    async with start_given_up(dsn) as (session, engine, key):
        await engine.turn()

        (step,) = await steps_of(session, key)
        (signal,) = step.signals
        assert (signal["kind"], signal["by"], signal["key_prefix"]) == ("cancel", "ann", "k_12")
        (record,) = await query(dsn, "select detail from shardclock.command_log where intent = 'DISCARDED'")
        assert json.loads(record["detail"])["by"] == "ann"
