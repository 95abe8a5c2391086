"""Whatever a run's process does, its run ends: by itself, told to, or killed; and what became of it is known."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import Any

import pytest

import shardclock_server.workers.runs.live
from shardclock import Completed, Failed, Seen
from shardclock_server.jobs.ending import Asked
from shardclock_server.jobs.states import RunOutcome
from shardclock_server.sql.jobs.runs import EndedRun
from shardclock_server.workers.runs.live import KILL_S, LiveRun
from shardclock_server.workers.user_process import ProcessDied
from tests.support.jobs import job_policy
from tests.support.runs import FakeRunProcess, begun_run
from tests.support.waiting import eventually


class Told:
    """What a run has told its runner."""

    def __init__(self) -> None:
        self.called = 0
        self.ends: list[str] = []


def live_run(
    process: FakeRunProcess | None,
    told: Told | None = None,
    *,
    lease_s: float = 20.0,
    was_used: bool = False,
    **numbers: Any,
) -> LiveRun:
    """Make a run in a process that the test plays."""
    said = told or Told()

    def called(_: LiveRun) -> None:
        said.called += 1

    live = LiveRun(
        begun_run(config='{"city": "Rome"}'),
        job_policy(**numbers),
        lease_until_s=time.monotonic() + lease_s,
        called=called,
        ends=lambda _, why: said.ends.append(why),
    )
    if process is not None:
        live.lend(process, was_used=was_used)
    return live


async def ended(live: LiveRun, when: Callable[[], None], process: FakeRunProcess) -> EndedRun:
    """Let a run begin, do something, and wait for its end."""
    making = asyncio.create_task(live.make())
    await eventually(lambda: bool(process.orders))
    when()
    return await making


async def test_a_run_that_returns_is_called_once_with_its_order_and_its_process_is_well() -> None:
    process, told = FakeRunProcess(lambda _: Completed(3)), Told()
    process.seen = Seen(log="a line", lines=1)
    live = live_run(process, told)

    done = await live.make()

    (order,) = process.orders
    assert (order.job, order.run_id, order.attempt, order.config) == ("refresh", "7.1", 1, '{"city": "Rome"}')
    assert (done.ending.outcome, done.ending.result, done.log) == (RunOutcome.SUCCEEDED, "3", "a line")
    assert (told.called, told.ends, live.is_well) == (1, [], True)
    assert 19 < process.lives_s[0] <= 20


async def test_a_run_that_failed_leaves_its_process_well() -> None:
    live = live_run(FakeRunProcess(lambda _: Failed("ValueError: no", "error", "in f")), retry_period_s=1.0)

    done = await live.make()

    assert (done.ending.outcome, done.ending.reason, done.ending.traceback) == ("FAILED", "ValueError: no", "in f")
    assert live.is_well


async def test_a_run_whose_process_dies_crashed() -> None:
    process = FakeRunProcess(gate=asyncio.Event())
    live = live_run(process)

    done = await ended(live, process.kill, process)

    assert (done.ending.outcome, done.ending.fails) == (RunOutcome.CRASHED, True)
    assert "exit code 9" in (done.ending.reason or "")
    assert (done.ending.delay_s or 0) >= 5.0
    assert not live.is_well


async def test_a_run_that_is_cancelled_ends_with_the_reason(process: FakeRunProcess) -> None:
    told = Told()
    live = live_run(process, told)

    done = await ended(live, lambda: live.ask(Asked.BY_CLIENT, "wrong city"), process)

    assert (done.ending.outcome, done.ending.delay_s) == (RunOutcome.CANCELED, None)
    assert done.ending.reason == "wrong city; it ended when it was told to"
    assert told.ends == ["wrong city"]
    assert live.is_well


async def test_a_run_that_takes_too_long_is_told_to_end_and_is_tried_again(process: FakeRunProcess) -> None:
    told = Told()
    live = live_run(process, told, max_runtime_s=0.05)

    done = await live.make()

    assert (done.ending.outcome, done.ending.fails) == (RunOutcome.TIMED_OUT, True)
    assert done.ending.delay_s is not None
    assert told.ends == ["it took longer than 0.05 s, its max_runtime"]


async def test_a_run_that_heeds_nothing_is_killed_when_the_grace_is_over() -> None:
    process = FakeRunProcess(gate=asyncio.Event(), heeds=False)
    live = live_run(process, grace_s=0.05)

    done = await ended(live, lambda: live.ask(Asked.BY_CLIENT, "wrong city"), process)

    assert process.killed
    assert (done.ending.outcome, live.is_well) == (RunOutcome.CANCELED, False)
    assert done.ending.reason == "wrong city; it did not end within 0.05 s, and was killed"


async def test_after_a_kill_that_may_not_reach_it_no_run_begins_while_the_process_may_live() -> None:
    process = FakeRunProcess(gate=asyncio.Event(), heeds=False)
    live = live_run(process, grace_s=0.05, lease_s=20.0)

    done = await ended(live, lambda: live.ask(Asked.BY_CLIENT, "enough"), process)

    assert 19 < done.ending.rest_s <= 20


async def test_a_process_that_is_to_end_ends_itself_soon_and_the_next_run_need_not_wait_for_longer() -> None:
    process = FakeRunProcess(gate=asyncio.Event(), heeds=False)
    live = live_run(process, grace_s=0.5, lease_s=20.0)
    making = asyncio.create_task(live.make())
    await eventually(lambda: bool(process.orders))
    live.ask(Asked.BY_CLIENT, "enough")
    await eventually(lambda: live.life.ends_by_s < math.inf)

    live.look()
    done = await making

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
async def test_a_process_that_died_while_it_waited_for_its_next_run_is_no_crash_of_that_run(
    was_used: bool, outcome: RunOutcome, delay_s: float, is_closed: bool
) -> None:
    process = FakeRunProcess(is_closed=is_closed)
    if not is_closed:
        process.kill()

    done = await live_run(process, was_used=was_used, retry_period_s=0.0).make()

    assert (done.ending.outcome, done.ending.delay_s, process.orders) == (outcome, delay_s, [])
    assert done.ending.fails is not was_used


async def test_a_run_whose_process_is_gone_when_it_is_told_to_end_ends_as_its_call_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process = FakeRunProcess(gate=asyncio.Event())
    live = live_run(process)

    async def closed() -> None:
        process.died.set()
        raise ProcessDied("the run's process has closed its socket", may_live=True)

    monkeypatch.setattr(process, "cancel", closed)

    done = await ended(live, lambda: live.ask(Asked.BY_CLIENT, "wrong city"), process)

    assert (done.ending.outcome, done.ending.rest_s) == (RunOutcome.CANCELED, 0.0), "Ray has seen it end"
    assert "exit code 9" in (done.ending.reason or "")


async def test_a_run_whose_worker_leaves_is_interrupted_and_due_at_once(process: FakeRunProcess) -> None:
    live = live_run(process)

    done = await ended(live, lambda: live.ask(Asked.BY_DRAIN, "its worker leaves"), process)

    assert (done.ending.outcome, done.ending.fails, done.ending.delay_s) == (RunOutcome.INTERRUPTED, False, 0.0)


async def test_a_process_that_does_not_come_up_is_a_failed_attempt_and_one_that_is_slow_is_tried_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shardclock_server.workers.runs.live, "START_S", 0.05)
    told = Told()

    done = await live_run(FakeRunProcess(comes_up=False), told).make()
    slow = await live_run(FakeRunProcess(is_slow=True), told, num_gpus=8.0, memory_mib=512).make()

    assert (done.ending.outcome, done.ending.fails) == (RunOutcome.CRASHED, True)
    assert "no module named app" in (done.ending.reason or "")
    assert (slow.ending.outcome, slow.ending.fails, slow.ending.delay_s) == (RunOutcome.INTERRUPTED, False, 5.0)
    assert "it asks Ray for 8 GPUs and 512 MiB of memory" in (slow.ending.reason or "")
    assert told.called == 0


async def test_a_run_that_is_cancelled_before_its_process_is_there_is_not_called() -> None:
    process = FakeRunProcess(is_slow=True)
    live = live_run(process)
    making = asyncio.create_task(live.make())
    await asyncio.sleep(0)

    live.ask(Asked.BY_CLIENT, "wrong city")
    done = await making

    assert (done.ending.outcome, process.orders) == (RunOutcome.CANCELED, [])


async def test_a_run_whose_lease_is_over_before_it_is_called_is_not_called() -> None:
    process = FakeRunProcess()
    live = live_run(process, lease_s=0.0)

    done = await live.make()

    assert (done.ending.outcome, done.ending.fails, done.ending.delay_s) == (RunOutcome.INTERRUPTED, False, 0.0)
    assert (process.orders, live.is_called) == ([], False)


async def test_a_run_that_was_begun_ahead_is_made_when_it_is_lent_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shardclock_server.workers.runs.live, "WAIT_S", 60.0)
    process, live = FakeRunProcess(), live_run(None)
    making = asyncio.create_task(live.make())
    await asyncio.sleep(0.2)
    assert not live.is_called

    lent_s = time.monotonic()
    live.lend(process, was_used=True)
    done = await making

    assert (done.ending.outcome, len(process.orders), live.is_well) == (RunOutcome.SUCCEEDED, 1, True)
    assert done.duration_s <= time.monotonic() - lent_s, "the wait is not the run's"


async def test_a_run_that_was_begun_ahead_in_vain_is_due_again_at_once_and_that_was_no_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shardclock_server.workers.runs.live, "WAIT_S", 0.01)
    live = live_run(None)

    done = await live.make()

    assert (done.ending.outcome, done.ending.fails, done.ending.delay_s) == (RunOutcome.INTERRUPTED, False, 0.0)
    assert done.ending.reason == "no process was free within 0.01 s"
    assert live.has_waited_in_vain


async def test_a_process_that_is_lent_in_the_moment_in_which_the_wait_is_over_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a run that waits
    monkeypatch.setattr(shardclock_server.workers.runs.live, "WAIT_S", 0.01)
    process, live = FakeRunProcess(), live_run(None)
    making = asyncio.create_task(live.make())
    await asyncio.sleep(0)

    # When its time is over, and a process is lent just after that, in the same turn of the loop
    asyncio.get_running_loop().call_later(0.02, lambda: live.lend(process, was_used=True))
    time.sleep(0.05)  # noqa: ASYNC251 - so that one turn finds both moments past

    # Then the run is made in it
    assert (await making).ending.outcome is RunOutcome.SUCCEEDED
    assert not process.killed


@pytest.mark.parametrize("is_lent", [False, True])
@pytest.mark.parametrize(
    ("asked", "outcome"), [(Asked.BY_CLIENT, RunOutcome.CANCELED), (Asked.BY_DRAIN, RunOutcome.INTERRUPTED)]
)
async def test_a_run_that_is_to_end_while_it_waits_for_a_process_is_not_made(
    asked: Asked, outcome: RunOutcome, is_lent: bool
) -> None:
    process, live = FakeRunProcess(), live_run(None)
    making = asyncio.create_task(live.make())
    await asyncio.sleep(0)

    live.ask(asked, "as the test says")
    if is_lent:
        live.lend(process, was_used=True)
    done = await making

    assert (done.ending.outcome, process.orders, live.is_called) == (outcome, [], False)
    assert live.is_well is is_lent, "a process that was not called can be lent again"
    assert not live.has_waited_in_vain


async def test_a_run_that_was_lost_while_it_waited_is_not_made_whatever_it_is_lent() -> None:
    process, live = FakeRunProcess(), live_run(None)
    making = asyncio.create_task(live.make())
    await asyncio.sleep(0)

    live.lose()
    live.lend(process, was_used=True)
    await making

    assert (process.orders, live.is_called) == ([], False)


async def test_a_run_for_which_no_process_can_be_started_is_made_later() -> None:
    live = live_run(None)
    making = asyncio.create_task(live.make())
    await asyncio.sleep(0)

    live.refuse("no node is there")
    done = await making

    assert (done.ending.outcome, done.ending.fails, done.ending.delay_s) == (RunOutcome.INTERRUPTED, False, 5.0)
    assert (done.ending.reason, live.has_waited_in_vain) == ("no node is there", False)


async def test_a_look_hears_what_a_run_says_and_lets_it_live_on(process: FakeRunProcess) -> None:
    live = live_run(process)
    making = asyncio.create_task(live.make())
    await eventually(lambda: bool(process.orders))
    process.seen = Seen(0.5, "half", said=1, lines=2, log="a\nb")
    live.life.lease_until_s += 10

    live.look()
    await eventually(lambda: live.report.seen == process.seen)

    assert process.lives_s[1] > process.lives_s[0] + 9
    process.told.set()
    await making


async def test_a_run_that_is_lost_is_killed_and_nobody_is_told_that_it_took_too_long(process: FakeRunProcess) -> None:
    told = Told()
    live = live_run(process, told)

    done = await ended(live, live.lose, process)

    assert process.killed
    assert told.ends == []
    assert done.ending.outcome is not RunOutcome.TIMED_OUT


async def test_what_a_run_said_last_is_told_with_its_end_however_short_ago_it_was() -> None:
    process = FakeRunProcess()
    process.seen = Seen(1.0, "day 2", said=3, lines=1, log="done")

    done = await live_run(process).make()

    assert (done.progress, done.message, done.log) == (1.0, "day 2", "done")


@pytest.fixture
async def process() -> FakeRunProcess:
    """Give a process whose runs go on until they are told to end."""
    return FakeRunProcess(gate=asyncio.Event())
