"""Signals and states of a newer release wait for a newer engine, without a redrive."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from shardclock_server.bpmn.model import InvalidModel, read_model
from shardclock_server.bpmn.model.refusal import ModelProblem
from shardclock_server.bpmn.step.signals import VariablesSet
from shardclock_server.engine import failed_signals, inbox
from shardclock_server.engine.retry_policy import TOO_NEW_TRIES_MAX
from shardclock_server.engine.runner import BATCH_FIRST, SignalRunner
from shardclock_server.engine.stats import EngineStats
from shardclock_server.service import processes
from shardclock_server.sql.processes.instances import cancel_instance as cancel
from shardclock_server.sql.processes.instances import set_variables
from shardclock_server.sql.session import Session
from tests.support.bpmn import model
from tests.support.factories import add_holder, query

TURNS = 10
USER = model('<startEvent id="s"/><userTask id="u"/>', connected="s>u")
OTHER = model('<startEvent id="s"/><userTask id="u"/>', connected="s>u", process_id="other")
NEWER_KIND = '{"kind": "of-tomorrow"}'


@dataclass
class EngineDatabase:
    """A database with waiting instances, and engines of two releases, one after the other."""

    dsn: str
    session: Session
    steps: Session
    engine: SignalRunner = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.engine = SignalRunner(self.steps, 1, EngineStats(), batch=500, log=structlog.get_logger())

    async def turns(self, count: int) -> None:
        """Run turns of the engine, and make all deferred signals due before each turn."""
        for _ in range(count):
            while await self.engine.turn():
                pass
            await query(self.dsn, "update shardclock.deliveries set next_attempt_at = now()")

    async def state(self, key: int) -> str:
        return (await processes.find(self.session, key)).found.state

    async def dead(self) -> list[str]:
        return [row["reason"] for row in await query(self.dsn, "select reason from shardclock.dead_letters")]


@asynccontextmanager
async def of(dsn: str) -> AsyncIterator[EngineDatabase]:
    await add_holder(dsn, 1, 0, 1)
    async with Session(dsn, application="test") as session, Session(dsn, application="engine") as steps:
        await processes.deploy(session, USER, resource="p.bpmn")
        await processes.deploy(session, OTHER, resource="other.bpmn")
        yield EngineDatabase(dsn, session, steps)


async def test_a_model_that_this_release_can_t_read_is_left_to_a_newer_engine(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with of(dsn) as it:
        refused = []

        def read(text: bytes) -> Any:
            if text == USER:
                refused.append(text)
                raise InvalidModel(ModelProblem("u", "this release knows no such element"))
            return read_model(text)

        key, other = await processes.start(it.session, "p"), await processes.start(it.session, "other")
        with monkeypatch.context() as older, capture_logs() as logs:
            older.setattr("shardclock_server.engine.definitions.read_model", read)
            await it.turns(TURNS)
        assert [await it.state(each) for each in (key, other)] == ["STARTING", "RUNNING"]
        assert len(refused) == 1, "it is compiled once"
        assert [line["event"] for line in logs] == ["signals left to a newer engine"]

        it.restart()
        await it.turns(1)

        assert await it.state(key) == "RUNNING"
        assert await it.dead() == []


async def test_if_a_start_waits_for_a_newer_engine_its_cancellation_also_waits(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with of(dsn) as it:

        def refuse(_: bytes) -> Any:
            raise InvalidModel(ModelProblem("u", "this release knows no such element"))

        key = await processes.start(it.session, "p")
        with monkeypatch.context() as older:
            older.setattr("shardclock_server.engine.definitions.read_model", refuse)
            await it.turns(1)
            assert await cancel(it.session, key) == "SENT"
            await it.turns(TURNS)
        assert await it.dead() == []

        it.restart()
        await it.turns(1)

        assert await it.state(key) == "CANCELED"


async def test_an_unknown_kind_of_signal_is_left_to_a_newer_engine(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with of(dsn) as it:
        key = await processes.start(it.session, "p")
        await it.turns(1)
        await query(dsn, "select shardclock.send_signal($1, 'default', $2)", key, NEWER_KIND)
        assert await set_variables(it.session, key, {"later": 1})
        await it.turns(TURNS)
        assert processes.variables_of(await processes.find(it.session, key)) == {}, "later signals wait for the first"

        newer = {**inbox.OF_INSTANCE, "of-tomorrow": lambda _: VariablesSet(1, {"first": 1})}
        monkeypatch.setattr(inbox, "OF_INSTANCE", newer)
        it.restart()
        await it.turns(1)

        assert processes.variables_of(await processes.find(it.session, key)) == {"first": 1, "later": 1}
        assert await it.dead() == []


async def test_a_state_of_a_newer_release_is_left_to_a_newer_engine(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with of(dsn) as it:
        key = await processes.start(it.session, "p")
        await it.turns(1)
        await query(dsn, "update shardclock.instances set state = replace(state, '\"f\":1', '\"f\":2')")
        assert await set_variables(it.session, key, {"a": 1})
        await it.turns(TURNS)
        whole = await processes.find(it.session, key)
        assert (whole.found.state, processes.variables_of(whole)) == ("RUNNING", None)

        monkeypatch.setattr("shardclock_server.bpmn.step.state.FORMAT", 2)
        it.restart()
        await it.turns(1)

        assert processes.variables_of(await processes.find(it.session, key)) == {"a": 1}
        assert await it.dead() == []


async def test_an_unreadable_signal_is_a_dead_letter_and_an_incident_after_two_days(dsn: str) -> None:
    async with of(dsn) as it:
        key = await processes.start(it.session, "p")
        await it.turns(1)
        await query(dsn, "select shardclock.send_signal($1, 'default', $2)", key, NEWER_KIND)
        await it.turns(1)
        await query(dsn, "update shardclock.deliveries set failed_attempts = $1", TOO_NEW_TRIES_MAX - 1)

        await it.turns(1)

        assert await it.dead() == ["this release knows no signal of the kind 'of-tomorrow'"]
        (incident,) = (await processes.find(it.session, key)).waits["incident_list"]
        assert "dead-letters redrive" in incident["sentence"]


async def test_many_signals_for_a_newer_engine_are_deferred_in_one_statement(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with of(dsn) as it:
        keys = [await processes.start(it.session, "p") for _ in range(BATCH_FIRST)]
        asked = []

        async def record(session: Session, holder: int, timer_keys: list[int], **rest: Any) -> dict[int, bool]:
            asked.append(sorted(timer_keys))
            return dict.fromkeys(timer_keys, False)

        def refuse(_: bytes) -> None:
            raise InvalidModel(ModelProblem("u", "this release knows no such element"))

        monkeypatch.setattr("shardclock_server.engine.definitions.read_model", refuse)
        monkeypatch.setattr(failed_signals, "defer_signals", record)

        await it.engine.turn()

        assert asked == [sorted(keys)]
