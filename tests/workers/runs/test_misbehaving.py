"""After any behaviour of its function, a run ends once, within its limits, and does not affect other runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shardclock.captured import LOG_CHARS_MAX
from shardclock_server.jobs.next_attempt import StopReason
from shardclock_server.jobs.states import RunOutcome
from shardclock_server.sql.jobs.runs import EndedRun
from shardclock_server.workers.run_resources import RunResources
from shardclock_server.workers.runs.live import LiveRun
from shardclock_server.workers.runs.process import LocalRunProcess
from tests.support.executors import child_of, until_reaped
from tests.support.jobs import job_policy
from tests.support.runs import begun_run
from tests.support.waiting import eventually

APP = """
import os, threading, time, shardclock

@shardclock.job()
def short(run):
    return "short"

@shardclock.job()
def heeds_nothing(run):
    print("begins")
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass

@shardclock.job()
def forks(run):
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    return "parent" if child else "child"

@shardclock.job()
def prints_without_end(run):
    while True:
        print("x" * 10_000)

@shardclock.job()
def prints_without_a_new_line(run):
    while True:
        print("x" * 10_000, end="")

@shardclock.job()
def returns_a_gigabyte(run):
    return {"rows": "x" * 2**30}

class Unpicklable(Exception):
    def __init__(self):
        self.lock = threading.Lock()

    def __str__(self):
        raise RuntimeError("no text")

    def __reduce__(self):
        raise TypeError("no pickle")

@shardclock.job()
def raises_what_can_not_be_pickled(run):
    raise Unpicklable
"""
GROWTH_MAX = 100 * 2**20  # bytes; the function prints more than this in one second

pytestmark = pytest.mark.slow


@pytest.fixture
async def process(tmp_path: Path) -> AsyncIterator[LocalRunProcess]:
    (tmp_path / "app_of_misbehaving.py").write_text(APP)
    started = LocalRunProcess(RunResources(), modules="app_of_misbehaving", directory=str(tmp_path))
    await started.ready()
    yield started
    started.kill()
    await asyncio.wait_for(until_reaped(started), 30.0)


def live_run(process: LocalRunProcess, job: str, **numbers: Any) -> LiveRun:
    live = LiveRun(
        begun_run(job=job, function=f"app_of_misbehaving:{job}"),
        job_policy(**numbers),
        lease_until_s=time.monotonic() + 60.0,
        on_call=lambda _: None,
        on_end_request=lambda _, _why: None,
    )
    live.receive(process, was_used=False)
    return live


async def made(process: LocalRunProcess, job: str) -> EndedRun:
    return await asyncio.wait_for(live_run(process, job).make(), 30.0)


async def test_a_run_that_ignores_its_cancellation_is_killed_when_its_grace_is_over(process: LocalRunProcess) -> None:
    live = live_run(process, "heeds_nothing", grace_s=0.3)
    making = asyncio.create_task(live.make())
    await eventually(lambda: _has_said(live))

    live.request_end(StopReason.BY_CLIENT, "wrong city")
    done = await asyncio.wait_for(making, 30.0)

    assert (done.ending.outcome, live.is_reusable) == (RunOutcome.CANCELED, False)
    assert done.ending.reason == "wrong city; the run did not end within 0.3 s, and was killed"
    assert await asyncio.wait_for(until_reaped(process), 30.0) == -9


async def test_a_run_that_forks_ends_once_and_its_process_makes_the_next_run(process: LocalRunProcess) -> None:
    done = await made(process, "forks")

    assert (done.ending.outcome, done.ending.result) == (RunOutcome.SUCCEEDED, '"parent"')
    assert (await made(process, "short")).ending.result == '"short"'
    assert child_of(process).children() == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("job", ["prints_without_end", "prints_without_a_new_line"])
async def test_a_run_that_prints_endlessly_is_polled_and_ended_in_constant_memory(
    process: LocalRunProcess, job: str
) -> None:
    seen_by_kernel = child_of(process)
    before = seen_by_kernel.memory_info().rss
    live = live_run(process, job, grace_s=0.3, max_runtime_s=5.0)
    making = asyncio.create_task(live.make())

    await eventually(lambda: _has_said(live, lines=5_000))
    grown = seen_by_kernel.memory_info().rss - before
    log = live.report.seen.log
    done = await asyncio.wait_for(making, 30.0)

    assert grown < GROWTH_MAX
    assert 0 < len(log) <= LOG_CHARS_MAX
    assert done.ending.outcome is RunOutcome.TIMED_OUT
    assert "was killed" in (done.ending.reason or "")
    assert len(done.log or "") <= LOG_CHARS_MAX


async def test_a_run_that_returns_a_gigabyte_has_succeeded_and_its_result_is_not_copied(
    process: LocalRunProcess,
) -> None:
    done = await made(process, "returns_a_gigabyte")

    assert (done.ending.outcome, done.ending.result) == (RunOutcome.SUCCEEDED, None)
    assert "it has over 1,000,000 characters or parts, and the limit is 16,384 bytes" in (done.ending.reason or "")
    assert (await made(process, "short")).ending.result == '"short"'


async def test_a_run_with_an_unpicklable_error_has_failed_with_a_reason(process: LocalRunProcess) -> None:
    done = await made(process, "raises_what_can_not_be_pickled")

    assert (done.ending.outcome, done.ending.fails) == (RunOutcome.FAILED, True)
    assert "Unpicklable" in (done.ending.reason or "")
    assert "raises_what_can_not_be_pickled" in (done.ending.traceback or "")
    assert (await made(process, "short")).ending.result == '"short"'


def _has_said(live: LiveRun, lines: int = 1) -> bool:
    live.poll()
    return live.report.seen.lines >= lines
