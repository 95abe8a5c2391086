"""Test that a model which takes long to parse delays only other requests with models."""

from __future__ import annotations

import asyncio
import threading

import pytest

from shardclock_server.gateway.limits import work_thread
from shardclock_server.gateway.limits.work_thread import WorkThread
from shardclock_server.gateway.requests.problems import Problem
from shardclock_server.service import deployment
from shardclock_server.sql.processes.definitions import DescribedProcess
from tests.support.bpmn import model
from tests.support.factories import value
from tests.support.gateways import Api
from tests.support.waiting import eventually

MODEL = model('<startEvent id="s"/>')
IN_TRANSACTION = """
select count(*)
from pg_stat_activity
where application_name = 'shardclock gateway' and datname = current_database() and state like 'idle in transaction%'
"""
HELD_S_MAX = 3.0  # the limit of the wait in a failing test


class HeldParser:
    """A parser that runs until it is released, and counts concurrent calls."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.begun = self.most = 0
        self._running = 0

    def __call__(self, text: bytes) -> list[DescribedProcess]:
        """Parse a model."""
        self.begun += 1
        self._running += 1
        self.most = max(self.most, self._running)
        assert self.let_go.wait(HELD_S_MAX)
        self._running -= 1
        return describe_processes(text)


describe_processes = deployment.describe_processes


async def test_while_a_model_is_parsed_other_requests_are_answered_and_no_transaction_is_open(
    dsn: str, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = HeldParser()
    monkeypatch.setattr(deployment, "describe_processes", reading)
    deployed = [asyncio.create_task(api.deploy(MODEL)) for _ in range(3)]
    await eventually(lambda: reading.begun == 1)

    assert (await api.get("/v1/processes")).json == {"processes": []}
    assert await value(dsn, IN_TRANSACTION) == 0
    reading.let_go.set()
    assert [(await it).status for it in deployed] == [201, 201, 201]
    assert (reading.begun, reading.most) == (3, 1)


async def test_a_request_beyond_the_work_threads_limit_is_refused_and_places_are_freed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(work_thread, "WORK_MAX", 2)
    reader, reading = WorkThread("models", doing="have models read here"), HeldParser()
    waiting = [asyncio.create_task(reader.run("ada", reading, MODEL)) for _ in range(2)]
    await eventually(lambda: reading.begun == 1)

    with pytest.raises(Problem, match="2 have models read here already; ask again soon"):
        await reader.run("ada", reading, MODEL)
    reading.let_go.set()
    assert await asyncio.gather(*waiting) == [describe_processes(MODEL)] * 2
    with pytest.raises(ZeroDivisionError):
        await reader.run("ada", lambda: 1 / 0)
    assert await reader.run("ada", len, MODEL) == len(MODEL)
    await reader.aclose()
