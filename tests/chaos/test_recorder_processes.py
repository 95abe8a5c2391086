"""Prove that the recorder reads the rows that an engine wrote for an instance."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

from chaos.history.changes import (
    SIGNAL,
    DeliveryWritten,
    InstanceStepped,
    InstanceWritten,
    TaskDeleted,
    TaskWritten,
    TimerWritten,
)
from chaos.keeper_pool import REGISTER
from chaos.process_models import PROCESSES
from chaos.recorder import Recorder
from shardclock_server.engine.settings import EngineSettings
from shardclock_server.engine.stepped import SteppedEngine
from shardclock_server.service import processes
from shardclock_server.sql.cluster.holders import ENGINE
from shardclock_server.sql.processes import instances, tasks
from shardclock_server.sql.session import Session
from tests.support.factories import BOUND_S, query
from tests.support.shard_pool import incarnation

VARIABLES = {"n": 0, "act": "return", "due": "PT1H", "order": "order 1"}


async def test_an_instance_is_recorded_with_its_signals_steps_and_items(dsn: str) -> None:
    engine = SteppedEngine(replace(incarnation(), role=ENGINE), EngineSettings(), dsn)
    await query(dsn, REGISTER, engine.holder, ENGINE, 0, 1)
    recorder = Recorder(dsn)
    await recorder.start()
    async with Session(dsn, application="test") as session:
        await engine.begin()
        await processes.deploy(session, PROCESSES["chaos-race"].model, resource="race.bpmn")

        key = await processes.start(session, "chaos-race", variables=VARIABLES)
        await engine.step()
        (task,) = await tasks.find_tasks(session)
        assert await tasks.complete_task(session, task.task_key, variables={}) == "COMPLETED"
        await engine.step()
        assert await instances.cancel_instance(session, key) == "SENT"
        await engine.step()
        await engine.end()
    async with asyncio.timeout(BOUND_S):
        await recorder.drain()

    seen = [change for commit in recorder.commits for change in commit.changes]
    rows = [change for change in seen if isinstance(change, InstanceWritten)]
    assert [(row.new, row.version, row.outcome) for row in rows] == [
        (True, 1, None),
        (False, 2, None),
        (False, 3, "CANCELED"),
    ]
    assert {(row.instance_key, row.tenant_id, row.process_id) for row in rows} == {(key, "default", "chaos-race")}
    assert rows[-1].result is not None
    assert json.loads(rows[-1].result)["n"] == 1
    steps = [change for change in seen if isinstance(change, InstanceStepped)]
    assert [[told["kind"] for told in json.loads(step.signals)] for step in steps] == [
        ["begin"],
        ["completed"],
        ["cancel"],
    ]
    assert json.loads(steps[1].passes)[0][1:] == ["approve", "left"]
    signals = [change for change in seen if isinstance(change, DeliveryWritten) and change.target == SIGNAL]
    first, *others = [(signal.timer_key, signal.instance_key) for signal in signals]
    assert first == (key, None)
    assert {instance_key for _, instance_key in others} == {key}
    (timer,) = (change for change in seen if isinstance(change, TimerWritten) and change.new)
    assert (timer.instance_key, timer.node_id) == (key, "late")
    (job,) = (change for change in seen if isinstance(change, DeliveryWritten) and change.job and change.new)
    assert (job.instance_key, job.node_id, job.tenant_id) == (key, "charge", "default")
    assert job.payload is not None
    assert json.loads(job.payload)["act"] == "return"
    made = [change for change in seen if isinstance(change, TaskWritten | TaskDeleted)]
    assert made == [
        TaskWritten(True, task.task_key, key, "approve", completed=False),
        TaskWritten(False, task.task_key, key, "approve", completed=True),
        TaskDeleted(task.task_key),
    ]
