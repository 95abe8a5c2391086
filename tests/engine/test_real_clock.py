"""On Postgres's own clock, engines process signals in their order, and each signal once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest
import structlog

from shardclock_server.engine.runner import SignalRunner
from shardclock_server.engine.stats import EngineStats
from shardclock_server.service import processes
from shardclock_server.sql.cluster.holders import end_holders
from shardclock_server.sql.processes import instances
from shardclock_server.sql.processes.signals import defer_signals, read_due_signals
from shardclock_server.sql.session import Session
from tests.support.bpmn import model
from tests.support.factories import BOUND_S, add_holder, query
from tests.support.roles import as_role
from tests.support.waiting import eventually

START, END = '<startEvent id="s"/>', '<endEvent id="e"/>'
USER = START + '<userTask id="u"/>' + END


@dataclass
class One:
    """One engine's runner, and a client's session."""

    session: Session
    runner: SignalRunner

    async def settle(self) -> None:
        while await self.runner.turn():
            pass

    async def settles(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Run turns of the engine until a condition is true; fail after a time limit."""

        async def turned() -> bool:
            await self.runner.turn()
            return await holds()

        await eventually(turned)

    async def state(self, key: int) -> str:
        return (await processes.find(self.session, key)).found.state

    async def variables(self, key: int) -> dict[str, Any] | None:
        return processes.variables_of(await processes.find(self.session, key))


def when_it_has_read(runner: SignalRunner, patch: pytest.MonkeyPatch, do: Callable[[], Awaitable[None]]) -> None:
    """Call `do` once, after a runner has read signals and before it advances an instance."""
    load = runner._load

    async def loading(going: Any) -> Any:
        patch.setattr(runner, "_load", load)
        await do()
        return await load(going)

    patch.setattr(runner, "_load", loading)


@asynccontextmanager
async def one_engine(dsn: str, holder: int = 1) -> AsyncIterator[One]:
    await add_holder(dsn, holder, 0, 1)
    async with Session(dsn, application="test") as session, Session(dsn, application="engine") as steps:
        yield One(session, SignalRunner(steps, holder, EngineStats(), batch=500, log=structlog.get_logger()))


@asynccontextmanager
async def transaction(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """Open a client's transaction now, so that `now()` in this transaction returns the present time."""
    connection = await asyncpg.connect(dsn, timeout=BOUND_S)
    try:
        async with connection.transaction():
            await connection.fetchval("select now()")
            yield connection
    finally:
        await connection.close(timeout=BOUND_S)


async def test_a_cancellation_that_was_accepted_is_not_lost_because_its_transaction_is_old(dsn: str) -> None:
    async with one_engine(dsn) as it:
        await processes.deploy(it.session, model(USER, connected="s>u u>e"), resource="p.bpmn")
        # The transaction began before the instance started, but can read the instance. So the cancellation came after
        # the start.
        async with transaction(dsn) as old:
            key = await processes.start(it.session, "p")
            assert await old.fetchval("select shardclock.cancel_instance($1)", key) == "SENT"
        await it.settle()
        assert await it.state(key) == "CANCELED"


async def test_a_signal_that_is_earlier_by_a_clock_that_was_set_back_waits_for_the_start(dsn: str) -> None:
    async with one_engine(dsn) as it:
        await processes.deploy(it.session, model(USER, connected="s>u u>e"), resource="p.bpmn")
        key = await processes.start(it.session, "p")
        assert await instances.cancel_instance(it.session, key) == "SENT"
        back = "update shardclock.deliveries set next_attempt_at = now() - interval '1 minute' where timer_key <> $1"
        await query(dsn, back, key)

        async def is_cancelled() -> bool:
            return bool(await instances.find_instances(it.session)) and await it.state(key) == "CANCELED"

        await it.settles(is_cancelled)
        assert await query(dsn, "select reason from shardclock.dead_letters") == []


async def test_later_variables_replace_earlier_ones_even_if_their_transaction_is_older(dsn: str) -> None:
    async with one_engine(dsn) as it:
        await processes.deploy(it.session, model(USER, connected="s>u u>e"), resource="p.bpmn")
        key = await processes.start(it.session, "p")
        await it.settle()
        async with transaction(dsn) as old:
            assert await instances.set_variables(it.session, key, {"a": "first"})
            assert await old.fetchval('select shardclock.set_variables($1, \'{"a": "second"}\')', key) == "SENT"
        await it.settle()
        assert await it.variables(key) == {"a": "second"}


async def test_an_engine_that_was_declared_dead_gives_up_no_signal(dsn: str) -> None:
    async with one_engine(dsn) as it:
        await processes.deploy(it.session, model(USER, connected="s>u u>e"), resource="p.bpmn")
        key = await processes.start(it.session, "p")
        await it.settle()
        assert await instances.set_variables(it.session, key, {"a": 1})
        (signal,) = (await read_due_signals(it.session, 1, batch=10)).signals
        await end_holders(it.session, [1], why="died")

        given_up = await defer_signals(
            it.session, 1, [signal.timer_key], reason="a zombie's", delay_s=60.0, tries_max=1
        )
        assert given_up == {}
        (left,) = await query(dsn, "select timer_key from shardclock.deliveries")
        assert left["timer_key"] == signal.timer_key


async def test_a_signal_that_another_engine_gives_up_is_not_taken(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with one_engine(dsn) as it:
        await processes.deploy(it.session, model(USER, connected="s>u u>e"), resource="p.bpmn")
        key = await processes.start(it.session, "p")
        await it.settle()
        assert await instances.set_variables(it.session, key, {"a": 1})

        async def give_up() -> None:
            due = [row["timer_key"] for row in await query(dsn, "select timer_key from shardclock.deliveries")]
            async with Session(dsn, application="the other") as other:
                assert await defer_signals(other, 1, due, reason="it can't be read", delay_s=0.5, tries_max=1)

        when_it_has_read(it.runner, monkeypatch, give_up)
        await it.settle()
        assert await it.variables(key) == {}
        assert len(await query(dsn, "select 1 from shardclock.dead_letters")) == 1


async def test_a_child_does_not_outlive_its_caller_in_any_order_of_signals(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One engine has read the child's start; another engine takes this start together with the end of the caller."""
    called = '<extensionElements><zeebe:calledElement processId="child"/></extensionElements>'
    calling = START + f'<callActivity id="c">{called}</callActivity>' + END
    async with one_engine(dsn) as it:
        await processes.deploy(it.session, model(USER, connected="s>u u>e", process_id="child"), resource="c.bpmn")
        await processes.deploy(it.session, model(calling, connected="s>c c>e"), resource="p.bpmn")
        parent = await processes.start(it.session, "p")
        await it.runner.turn()

        async def end_its_caller() -> None:
            assert await instances.cancel_instance(it.session, parent) == "SENT"
            async with Session(dsn, application="the other") as other:
                await SignalRunner(other, 1, EngineStats(), batch=500, log=structlog.get_logger()).turn()

        async def both_are_cancelled() -> bool:
            found = await instances.find_instances(it.session)
            return {(one.process_id, one.state) for one in found} == {("p", "CANCELED"), ("child", "CANCELED")}

        when_it_has_read(it.runner, monkeypatch, end_its_caller)
        await it.settles(both_are_cancelled)


async def test_a_child_without_its_start_signal_does_not_begin(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine has read the child's start. Then the start is deleted together with its caller."""
    async with one_engine(dsn) as it:
        await processes.deploy(it.session, model(USER, connected="s>u u>e"), resource="p.bpmn")
        await processes.start(it.session, "p")

        async def take_it_away() -> None:
            await query(dsn, "delete from shardclock.deliveries")

        when_it_has_read(it.runner, monkeypatch, take_it_away)
        await it.settle()
        assert await instances.find_instances(it.session) == []


async def test_an_idempotency_key_of_yesterday_starts_an_instance_although_its_row_still_exists(dsn: str) -> None:
    async with one_engine(dsn) as it:
        await processes.deploy(it.session, model(USER, connected="s>u u>e"), resource="p.bpmn")
        first = await processes.start(it.session, "p", idempotency_key="daily-report")
        await query(dsn, "update shardclock.process_starts set asked_at = asked_at - interval '25 hours'")
        async with Session(as_role(dsn, "scheduler"), application="test") as client:
            second = await processes.start(client, "p", idempotency_key="daily-report")
        assert second != first
        assert await processes.start(it.session, "p", idempotency_key="daily-report") == second
