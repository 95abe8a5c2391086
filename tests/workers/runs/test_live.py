"""After any behaviour of its process, a run has a known outcome: it ended by itself, was cancelled, or was killed."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import shardclock_server.workers.runs.live
from shardclock import Completed, Failed, ReportSnapshot
from shardclock_server.jobs.next_attempt import StopReason
from shardclock_server.jobs.states import RunOutcome
from shardclock_server.sql.jobs.runs import EndedRun
from shardclock_server.workers.runs.live import KILL_S, LiveRun
from shardclock_server.workers.user_process import ProcessDied
from tests.support.factories import BOUND_S
from tests.support.jobs import job_policy
from tests.support.runs import FakeRunProcess, begun_run
from tests.support.waiting import eventually


class RunnerCalls:
    """The calls that a run makes to its runner."""

    def __init__(self) -> None:
        self.called = 0
        self.ends: list[str] = []


def live_run(
    process: FakeRunProcess | None,
    calls: RunnerCalls | None = None,
    *,
    lease_s: float = 20.0,
    was_used: bool = False,
    **numbers: Any,
) -> LiveRun:
    record = calls or RunnerCalls()

    def called(_: LiveRun) -> None:
        record.called += 1

    live = LiveRun(
        begun_run(config='{"city": "Rome"}'),
        job_policy(**numbers),
        lease_until_s=time.monotonic() + lease_s,
        on_call=called,
        on_end_request=lambda _, why: record.ends.append(why),
    )
    if process is not None:
        live.receive(process, was_used=was_used)
    return live


async def within_bound(ending: Awaitable[EndedRun]) -> EndedRun:
    """Wait for the end of a run; fail if the run does not end."""
    return await asyncio.wait_for(ending, BOUND_S)


async def ended(live: LiveRun, when: Callable[[], None], process: FakeRunProcess) -> EndedRun:
    making = asyncio.create_task(live.make())
    await eventually(lambda: bool(process.orders))
    when()
    return await within_bound(making)


async def test_a_run_that_returns_is_called_once_with_its_order_and_its_process_is_well() -> None:
    process, calls = FakeRunProcess(lambda _: Completed(3)), RunnerCalls()
    process.seen = ReportSnapshot(1.0, "day 2", report_count=3, lines=1, log="a line")
    live = live_run(process, calls)

    done = await within_bound(live.make())

    (order,) = process.orders
    assert (order.job, order.run_id, order.attempt, order.config) == ("refresh", "7.1", 1, '{"city": "Rome"}')
    assert (done.ending.outcome, done.ending.result, done.log) == (RunOutcome.SUCCEEDED, "3", "a line")
    assert (done.progress, done.message) == (1.0, "day 2")
    assert (calls.called, calls.ends, live.is_reusable) == (1, [], True)
    assert 19 < process.lives_s[0] <= 20


async def test_a_run_that_failed_leaves_its_process_well() -> None:
    live = live_run(FakeRunProcess(lambda _: Failed("ValueError: no", "error", "in f")), retry_period_s=1.0)

    done = await within_bound(live.make())

    assert (done.ending.outcome, done.ending.reason, done.ending.traceback) == ("FAILED", "ValueError: no", "in f")
    assert live.is_reusable


async def test_the_death_of_its_process_is_a_crash_of_a_run() -> None:
    process = FakeRunProcess(gate=asyncio.Event())
    live = live_run(process)

    done = await ended(live, process.kill, process)

    assert (done.ending.outcome, done.ending.fails) == (RunOutcome.CRASHED, True)
    assert "exit code 9" in (done.ending.reason or "")
    assert (done.ending.delay_s or 0) >= 5.0
    assert not live.is_reusable


async def test_a_run_that_is_cancelled_ends_with_the_reason(process: FakeRunProcess) -> None:
    calls = RunnerCalls()
    live = live_run(process, calls)

    done = await ended(live, lambda: live.request_end(StopReason.BY_CLIENT, "wrong city"), process)

    assert (done.ending.outcome, done.ending.delay_s) == (RunOutcome.CANCELED, None)
    assert done.ending.reason == "wrong city; it ended on request"
    assert calls.ends == ["wrong city"]
    assert live.is_reusable


async def test_a_run_that_exceeds_its_timeout_gets_a_cancellation_and_is_retried(process: FakeRunProcess) -> None:
    calls = RunnerCalls()
    live = live_run(process, calls, max_runtime_s=0.05)

    done = await within_bound(live.make())

    assert (done.ending.outcome, done.ending.fails) == (RunOutcome.TIMED_OUT, True)
    assert done.ending.delay_s is not None
    assert calls.ends == ["the run took longer than 0.05 s, its max_runtime"]


async def test_a_run_that_ignores_its_cancellation_is_killed_after_the_grace() -> None:
    process = FakeRunProcess(gate=asyncio.Event(), heeds=False)
    live = live_run(process, grace_s=0.05)

    done = await ended(live, lambda: live.request_end(StopReason.BY_CLIENT, "wrong city"), process)

    assert process.killed
    assert (done.ending.outcome, live.is_reusable) == (RunOutcome.CANCELED, False)
    assert done.ending.reason == "wrong city; the run did not end within 0.05 s, and was killed"
    assert 19 < done.ending.rest_s <= 20, "the kill is not confirmed: no run begins while the process may live"


async def test_a_cancelled_run_has_a_shorter_lifetime_and_the_next_run_waits_no_longer() -> None:
    process = FakeRunProcess(gate=asyncio.Event(), heeds=False)
    live = live_run(process, grace_s=0.5, lease_s=20.0)
    making = asyncio.create_task(live.make())
    await eventually(lambda: bool(process.orders))
    live.request_end(StopReason.BY_CLIENT, "enough")
    await eventually(lambda: live.life.ends_by_s < math.inf)

    live.poll()
    done = await within_bound(making)

    assert process.lives_s[1] <= 0.5 + KILL_S, "it was told"
    assert done.ending.rest_s <= KILL_S


@pytest.mark.parametrize(("may_live", "rest_s"), [(False, 5.0), (True, 20.0)])
async def test_no_run_begins_while_a_process_that_was_lost_may_live(may_live: bool, rest_s: float) -> None:
    process = FakeRunProcess(gate=asyncio.Event(), may_live=may_live)
    live = live_run(process, lease_s=20.0)

    done = await ended(live, process.died.set, process)

    assert done.ending.outcome is RunOutcome.CRASHED
    assert rest_s - 1 < done.ending.rest_s <= rest_s


@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize(
    ("was_used", "outcome", "delay_s"), [(True, RunOutcome.INTERRUPTED, 0.0), (False, RunOutcome.CRASHED, 5.0)]
)
async def test_a_process_that_died_while_it_waited_for_its_next_run_is_not_a_crash_of_that_run(
    was_used: bool, outcome: RunOutcome, delay_s: float, is_closed: bool
) -> None:
    process = FakeRunProcess(is_closed=is_closed)
    if not is_closed:
        process.kill()

    done = await within_bound(live_run(process, was_used=was_used, retry_period_s=0.0).make())

    assert (done.ending.outcome, done.ending.delay_s, process.orders) == (outcome, delay_s, [])
    assert done.ending.fails is not was_used


async def test_a_run_with_a_dead_process_at_its_cancellation_ends_by_the_error_of_its_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process = FakeRunProcess(gate=asyncio.Event())
    live = live_run(process)

    async def closed() -> None:
        process.died.set()
        raise ProcessDied("the run's process has closed its socket", may_live=True)

    monkeypatch.setattr(process, "cancel", closed)

    done = await ended(live, lambda: live.request_end(StopReason.BY_CLIENT, "wrong city"), process)

    assert (done.ending.outcome, done.ending.rest_s) == (RunOutcome.CANCELED, 0.0), "Ray has seen it end"
    assert "exit code 9" in (done.ending.reason or "")


async def test_a_run_is_interrupted_by_the_end_of_its_worker_and_due_at_once(process: FakeRunProcess) -> None:
    live = live_run(process)

    done = await ended(live, lambda: live.request_end(StopReason.BY_DRAIN, "its worker leaves"), process)

    assert (done.ending.outcome, done.ending.fails, done.ending.delay_s) == (RunOutcome.INTERRUPTED, False, 0.0)


async def test_a_failed_start_of_a_process_is_a_failed_attempt_and_a_slow_one_is_tried_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shardclock_server.workers.runs.live, "START_S", 0.05)
    calls = RunnerCalls()

    done = await within_bound(live_run(FakeRunProcess(comes_up=False), calls).make())
    slow = await within_bound(live_run(FakeRunProcess(is_slow=True), calls, num_gpus=8.0, memory_mib=512).make())

    assert (done.ending.outcome, done.ending.fails) == (RunOutcome.CRASHED, True)
    assert "no module named app" in (done.ending.reason or "")
    assert (slow.ending.outcome, slow.ending.fails, slow.ending.delay_s) == (RunOutcome.INTERRUPTED, False, 5.0)
    assert "it asks Ray for 8 GPUs and 512 MiB of memory" in (slow.ending.reason or "")
    assert calls.called == 0


async def test_a_run_that_is_cancelled_before_its_process_is_up_is_not_called() -> None:
    process = FakeRunProcess(is_slow=True)
    live = live_run(process)
    making = asyncio.create_task(live.make())
    await asyncio.sleep(0)

    live.request_end(StopReason.BY_CLIENT, "wrong city")
    done = await within_bound(making)

    assert (done.ending.outcome, process.orders) == (RunOutcome.CANCELED, [])


async def test_a_run_is_not_called_after_its_lease() -> None:
    process = FakeRunProcess()
    live = live_run(process, lease_s=0.0)

    done = await within_bound(live.make())

    assert (done.ending.outcome, done.ending.fails, done.ending.delay_s) == (RunOutcome.INTERRUPTED, False, 0.0)
    assert (process.orders, live.is_called) == ([], False)


async def test_a_prefetched_run_begins_when_it_gets_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shardclock_server.workers.runs.live, "WAIT_S", 60.0)
    process, live = FakeRunProcess(), live_run(None)
    making = asyncio.create_task(live.make())
    await asyncio.sleep(0.2)
    assert not live.is_called

    received_s = time.monotonic()
    live.receive(process, was_used=True)
    done = await within_bound(making)

    assert (done.ending.outcome, len(process.orders), live.is_reusable) == (RunOutcome.SUCCEEDED, 1, True)
    assert done.duration_s <= time.monotonic() - received_s, "the wait is not the run's"


async def test_a_prefetched_run_without_a_process_is_due_again_immediately_and_uses_no_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shardclock_server.workers.runs.live, "WAIT_S", 0.01)
    live = live_run(None)

    done = await within_bound(live.make())

    assert (done.ending.outcome, done.ending.fails, done.ending.delay_s) == (RunOutcome.INTERRUPTED, False, 0.0)
    assert done.ending.reason == "no process was free within 0.01 s"
    assert live.has_timed_out


async def test_a_process_that_comes_at_the_moment_of_the_timeout_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a waiting run
    monkeypatch.setattr(shardclock_server.workers.runs.live, "WAIT_S", 0.01)
    process, live = FakeRunProcess(), live_run(None)
    making = asyncio.create_task(live.make())
    await asyncio.sleep(0)

    # When the run's time is over, and a process becomes free immediately afterwards, in the same iteration of the event
    # loop
    asyncio.get_running_loop().call_later(0.02, lambda: live.receive(process, was_used=True))
    time.sleep(0.05)  # noqa: ASYNC251 - one turn must find both moments in the past

    # Then the process executes the run
    assert (await within_bound(making)).ending.outcome is RunOutcome.SUCCEEDED
    assert not process.killed


@pytest.mark.parametrize("has_process", [False, True])
@pytest.mark.parametrize(
    ("asked", "outcome"), [(StopReason.BY_CLIENT, RunOutcome.CANCELED), (StopReason.BY_DRAIN, RunOutcome.INTERRUPTED)]
)
async def test_a_run_that_is_cancelled_while_it_waits_for_a_process_is_not_made(
    asked: StopReason, outcome: RunOutcome, has_process: bool
) -> None:
    process, live = FakeRunProcess(), live_run(None)
    making = asyncio.create_task(live.make())
    await asyncio.sleep(0)

    live.request_end(asked, "as the test says")
    if has_process:
        live.receive(process, was_used=True)
    done = await within_bound(making)

    assert (done.ending.outcome, process.orders, live.is_called) == (outcome, [], False)
    assert live.is_reusable is has_process, "a process that was not called can be used again"
    assert not live.has_timed_out


async def test_a_run_does_not_begin_if_the_worker_lost_it_during_its_wait_for_a_process() -> None:
    process, live = FakeRunProcess(), live_run(None)
    making = asyncio.create_task(live.make())
    await asyncio.sleep(0)

    live.lose()
    live.receive(process, was_used=True)
    await within_bound(making)

    assert (process.orders, live.is_called) == ([], False)


async def test_a_run_without_a_process_is_made_later() -> None:
    live = live_run(None)
    making = asyncio.create_task(live.make())
    await asyncio.sleep(0)

    live.refuse("no node is there")
    done = await within_bound(making)

    assert (done.ending.outcome, done.ending.fails, done.ending.delay_s) == (RunOutcome.INTERRUPTED, False, 5.0)
    assert (done.ending.reason, live.has_timed_out) == ("no node is there", False)


async def test_a_poll_reads_the_report_of_a_run_and_extends_its_lifetime(process: FakeRunProcess) -> None:
    live = live_run(process)
    making = asyncio.create_task(live.make())
    await eventually(lambda: bool(process.orders))
    process.seen = ReportSnapshot(0.5, "half", report_count=1, lines=2, log="a\nb")
    live.life.lease_until_s += 10

    live.poll()
    await eventually(lambda: live.report.seen == process.seen)

    assert process.lives_s[1] > process.lives_s[0] + 9
    process.told.set()
    await within_bound(making)


async def test_a_lost_run_is_killed_without_a_record_of_a_timeout(process: FakeRunProcess) -> None:
    calls = RunnerCalls()
    live = live_run(process, calls)

    done = await ended(live, live.lose, process)

    assert process.killed
    assert calls.ends == []
    assert done.ending.outcome is not RunOutcome.TIMED_OUT


@pytest.fixture
async def process() -> FakeRunProcess:
    """Return a process in which each run continues until it is cancelled."""
    return FakeRunProcess(gate=asyncio.Event())
