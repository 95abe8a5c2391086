"""A run's process on Ray: calls go over its socket, and Ray reports the end of the process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import ray

from shardclock import CallOutcome, Canceled, Completed, Job, JobCall, RunOrder
from shardclock.executor import call_server, importing, runs
from shardclock.executor.actors import RunActor
from shardclock_server.workers.run_resources import RunResources
from shardclock_server.workers.runs.process import RayRunProcess, has_node
from shardclock_server.workers.user_process import NotCalled, ProcessDied
from tests.support.user_actors import Remote, Started
from tests.support.waiting import eventually

APP = """
import asyncio, shardclock

@shardclock.job()
async def {job}_waits(run):
    run.progress(0.5, "half")
    await asyncio.sleep(60)

@shardclock.job()
async def {job}_ends(run):
    return run.attempt
"""


class WatchedCall(JobCall):
    """A run that tells when it has ended."""

    def __init__(self, job: Job, run: RunOrder) -> None:
        super().__init__(job, run)
        self.has_ended = threading.Event()

    def run(self) -> CallOutcome:
        try:
            return super().run()
        finally:
            self.has_ended.set()


@pytest.fixture
async def started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> AsyncIterator[Started]:
    """Start the app in this process; at the end no run is left, because a run redirects the output of the process."""
    calls: list[WatchedCall] = []

    def watched(job: Job, run: RunOrder) -> JobCall:
        calls.append(WatchedCall(job, run))
        return calls[-1]

    monkeypatch.setattr(runs, "JobCall", watched)
    monkeypatch.setattr(importing, "lower_priority", lambda _: None)
    # not called, because the call would end the test's own process
    monkeypatch.setattr(runs, "live_for", lambda _: None)
    name = f"runs_of_{request.node.name}"
    (tmp_path / f"{name}.py").write_text(APP.format(job=name[:80]))
    yield Started(RunActor(name, str(tmp_path), 2)).instead_of_ray(monkeypatch)
    for call in calls:
        call.cancel()
    await eventually(lambda: all(call.has_ended.is_set() for call in calls))


def order(job: str, request: pytest.FixtureRequest) -> RunOrder:
    module = f"runs_of_{request.node.name}"
    name = f"{module[:80]}_{job}"
    return RunOrder(name, f"{module}:{name}", "7.1", 2, datetime.now(UTC), None)


async def test_runs_are_made_polled_and_cancelled_without_ray(started: Started, request: pytest.FixtureRequest) -> None:
    process = RayRunProcess(RunResources(), modules="app", directory="/app")
    await process.ready()
    first, _ = await process.run(order("ends", request), lives_s=20)
    await process.ready()
    running = asyncio.create_task(process.run(order("waits", request), lives_s=20))

    async def is_half() -> bool:
        return (await process.poll(lives_s=20)).progress == 0.5

    await eventually(is_half)
    await process.cancel()
    second, seen = await running

    assert (first, type(second), seen.message) == (Completed(2), Canceled, "half")
    assert (started.listen.calls, started.ready.calls, started.answer.calls) == (1, 0, 0)
    process.kill()


async def test_a_run_ends_when_ray_reports_the_end_of_its_process_even_if_the_socket_is_open(
    started: Started, request: pytest.FixtureRequest
) -> None:
    process = RayRunProcess(RunResources(), modules="app", directory="/app")
    await process.ready()
    running = asyncio.create_task(process.run(order("waits", request), lives_s=20))
    await eventually(lambda: bool(started.gone.calls))

    started.ended.set()

    with pytest.raises(ProcessDied, match="the run's process"):
        await running


async def test_a_process_that_hangs_after_its_last_run_is_not_replaced(
    started: Started, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = RayRunProcess(RunResources(), modules="app", directory="/app")
    await process.ready()
    await process.run(order("ends", request), lives_s=20)
    taken: list[tuple[Any, int, bytes]] = []
    takes = call_server.Serving.take
    monkeypatch.setattr(call_server.Serving, "take", lambda *message: taken.append(message))

    waiting = asyncio.create_task(process.ready())
    await eventually(lambda: bool(taken))
    await asyncio.sleep(0)

    assert not waiting.done()
    takes(*taken[0])
    await waiting
    assert started.ready.calls == 0


async def test_a_process_that_ended_after_its_last_run_is_not_replaced(
    started: Started, request: pytest.FixtureRequest
) -> None:
    process = RayRunProcess(RunResources(), modules="app", directory="/app")
    await process.ready()
    started.ended.set()
    started.ready = Remote(_raise)
    await eventually(lambda: not process.is_reached)

    with pytest.raises(ProcessDied):
        await process.ready()
    with pytest.raises(NotCalled):
        await process.run(order("ends", request), lives_s=20)
    with pytest.raises(ProcessDied) as looked:
        await process.poll(lives_s=20)

    assert looked.value.may_live


async def _raise() -> None:
    raise ray.exceptions.RayActorError


@pytest.mark.parametrize(
    ("needs", "resource", "found"),
    [
        (RunResources(), "workers", True),
        (RunResources(num_gpus=1.0), None, True),
        (RunResources(num_gpus=1.0), "workers", False),
        (RunResources(num_cpus=1.0), "workers", True),
        (RunResources(num_gpus=2.0), None, False),
    ],
)
def test_a_node_is_one_on_which_the_worker_s_runs_may_be(
    monkeypatch: pytest.MonkeyPatch, needs: RunResources, resource: str | None, found: bool
) -> None:
    nodes = [
        {"Alive": True, "Resources": {"CPU": 2.0, "GPU": 1.0}},
        {"Alive": True, "Resources": {"CPU": 2.0, "workers": 1.0}},
        {"Alive": False, "Resources": {"CPU": 2.0, "GPU": 8.0, "workers": 1.0}},
    ]
    monkeypatch.setattr(ray, "nodes", lambda: nodes)

    assert has_node(needs, resource=resource) is found
