"""Prove that the judge reports an unfenced write to an instance that another engine has advanced since."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from chaos.broken_builds import BUILDS, Build
from chaos.checker import judge
from chaos.history import History
from chaos.keeper_pool import REGISTER
from chaos.process_models import PROCESSES
from chaos.recorder import Recorder
from chaos.scripted.good_run import red
from shardclock_server.engine.advance import advance_by
from shardclock_server.engine.settings import EngineSettings
from shardclock_server.engine.stepped import SteppedEngine
from shardclock_server.service import processes
from shardclock_server.sql import session as sessions
from shardclock_server.sql.cluster.holders import ENGINE
from shardclock_server.sql.processes import tasks
from shardclock_server.sql.processes.apply import apply_steps
from shardclock_server.sql.processes.signals import read_due_signals
from shardclock_server.sql.session import Session
from shardclock_server.sql.statements import ServerStatement, statement
from tests.support import ROOT
from tests.support.factories import BOUND_S, query
from tests.support.shard_pool import incarnation

ZOMBIE = 77
VARIABLES = {"n": 0, "act": "return", "due": "PT1H", "order": "order 1"}


def statements_of(build: Build) -> Callable[[str], ServerStatement]:

    def read(name: str) -> ServerStatement:
        edits = [edit for edit in build.edits if edit.file.endswith(f"/{name}.sql")]
        if not edits:
            return statement(name)
        text = (ROOT / edits[0].file).read_text(encoding="utf-8")
        for edit in edits:
            text = text.replace(edit.old, edit.new)
        return ServerStatement.of(text)

    return read


@pytest.mark.parametrize(
    ("name", "broken"),
    [("sound, with engines", set[str]()), ("an engine without a fence", {"P3", "P4"})],
    ids=["fence", "no fence"],
)
async def test_a_late_write_of_a_replaced_engine_breaks_p3_and_p4(
    dsn: str, monkeypatch: pytest.MonkeyPatch, name: str, broken: set[str]
) -> None:
    # Given an instance with a completed task, and an engine that has advanced the instance only in memory
    (build,) = (build for build in BUILDS if build.name == name)
    monkeypatch.setattr(sessions, "statement", statements_of(build))
    engine = SteppedEngine(replace(incarnation(), role=ENGINE), EngineSettings(), dsn)
    for holder in (engine.holder, ZOMBIE):
        await query(dsn, REGISTER, holder, ENGINE, 0, 1)
    recorder = Recorder(dsn)
    await recorder.start()
    async with Session(dsn, application="test") as session:
        await engine.begin()
        (deployed,) = await processes.deploy(session, PROCESSES["chaos-race"].model, resource="race.bpmn")
        key = await processes.start(session, "chaos-race", variables=VARIABLES)
        await engine.step()
        (task,) = await tasks.find_tasks(session)
        assert await tasks.complete_task(session, task.task_key, variables={}) == "COMPLETED"
        taken = (await read_due_signals(session, ZOMBIE, batch=10)).signals
        definitions = engine._runners[key // 840 % len(engine._runners)]._definitions
        late = advance_by(taken, definitions.get(deployed.definition_key, "default"), deployed.definition_key).writes()

        # When another engine writes first
        await engine.step()
        written = (await apply_steps(session, ZOMBIE, late)).written

        assert written == ([key] if broken else [])
        await engine.end()
    async with asyncio.timeout(BOUND_S):
        await recorder.drain()
    history = History(seed=1, began_at=time.time() - 60, ended_at=time.time(), commits=recorder.commits)
    assert red(judge(history)) & {"P3", "P4", "P5"} == broken
