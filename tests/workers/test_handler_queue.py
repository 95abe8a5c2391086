"""A worker calls a handler's deliveries in chunks; a call that fails affects only its own delivery."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import pytest

from shardclock import Completed, Failed, Outcome
from shardclock_server.sql.deliveries.claim import ClaimedDelivery
from shardclock_server.sql.deliveries.settle import DeliveryEnding
from shardclock_server.workers import handler_queue, handler_slot
from shardclock_server.workers.handler_slot import CHUNK_MAX, next_chunk
from tests.support.handler_queues import dies_of, hangs_on, running
from tests.support.handlers import NOON, FakeProcesses, delivery, spec_of
from tests.support.waiting import eventually


@pytest.mark.parametrize(
    ("size", "took_s", "deliveries", "following"),
    [
        (1, 0.0001, 1, 2),
        (64, 0.001, 64, 128),
        (500, 0.001, 500, CHUNK_MAX),
        (100, 0.1, 100, 20),
        (8, 5.0, 8, 1),
        (1, 0.0, 1, 2),
    ],
)
def test_a_chunk_doubles_while_its_calls_take_less_than_20_ms(
    size: int, took_s: float, deliveries: int, following: int
) -> None:
    assert next_chunk(size, took_s, deliveries) == following


async def test_a_fast_handler_gets_more_and_more_with_one_message() -> None:
    processes = FakeProcesses()
    async with running(spec_of(is_async=False), processes) as it:
        it.queue.add([delivery(key) for key in range(200)])
        await eventually(lambda: len(it.settled) == 200)

    sizes = [len(chunk) for chunk in processes.chunks]
    assert sizes[0] == 1
    assert max(sizes) >= 32
    assert len(sizes) < 20
    assert [key for chunk in processes.chunks for key in chunk] == list(range(200)), "in order, each once"
    assert processes.started[0].killed, "the process ends with the queue"


async def test_a_batch_handler_gets_its_batch() -> None:
    processes = FakeProcesses()
    async with running(spec_of(batch=50), processes) as it:
        it.queue.add([delivery(key) for key in range(120)])
        await eventually(lambda: len(it.settled) == 120)

    assert sorted(len(chunk) for chunk in processes.chunks) == [20, 50, 50]


@pytest.mark.parametrize("is_async", [True, False])
async def test_only_the_delivery_that_kills_its_process_fails(is_async: bool) -> None:
    processes = FakeProcesses(dies_of(150))
    async with running(spec_of(is_async=is_async, concurrency=300 if is_async else None), processes) as it:
        it.queue.add([delivery(key) for key in range(200)])
        await eventually(lambda: len(it.settled) == 200)

    assert {key for key, ending in it.ends().items() if ending is not DeliveryEnding.DELIVERED} == {150}
    (guilty,) = (one for one in it.settled if one.delivery.timer_key == 150)
    assert guilty.reason == "the handler's process ended: exit code 1"
    assert guilty.fails


async def test_only_the_hanging_delivery_fails_and_its_process_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler_slot, "GRACE_S", 0.01)
    processes = FakeProcesses(hangs_on(7))
    async with running(spec_of(is_async=False, timeout_s=0.05), processes) as it:
        it.queue.add([delivery(key) for key in range(20)])
        await eventually(lambda: len(it.settled) == 20)

    assert {key for key, ending in it.ends().items() if ending is not DeliveryEnding.DELIVERED} == {7}
    (guilty,) = (one for one in it.settled if one.delivery.timer_key == 7)
    assert guilty.reason == "the call did not end within 0.05 s"
    assert len(processes.started) >= 2
    assert all(process.killed for process in processes.started)


async def test_a_crowded_process_is_not_killed_while_it_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given ten calls in the process, two at a time, each nearly as long as its timeout
    monkeypatch.setattr(handler_slot, "GRACE_S", 0.05)
    processes = FakeProcesses(gate=asyncio.Event())
    async with running(spec_of(concurrency=2, timeout_s=0.3), processes) as it:
        it.queue.add([delivery(0)])
        await eventually(lambda: bool(processes.chunks))
        assert processes.gate is not None
        processes.gate.set()
        await eventually(lambda: len(it.settled) == 1)
        the_seat = it.queue._slots[0]
        the_seat.chunk = 10
        processes.gate.clear()
        it.queue.add([delivery(key) for key in range(1, 11)])
        await eventually(lambda: len(processes.chunks) == 2)
        began_s = time.monotonic()
        await eventually(lambda: time.monotonic() > began_s + 0.45)  # longer than the call's timeout
        processes.gate.set()
        await eventually(lambda: len(it.settled) == 11)

    assert len(processes.started) == 1
    assert set(it.ends().values()) == {DeliveryEnding.DELIVERED}


@pytest.mark.parametrize("answers", [True, False])
async def test_an_async_handler_that_blocks_its_process_is_ended_after_one_timeout(
    monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    monkeypatch.setattr(handler_slot, "GRACE_S", 0.02)
    processes = FakeProcesses(hangs_on(7))
    processes.answers = answers
    async with running(spec_of(concurrency=2, timeout_s=0.05), processes) as it:
        it.queue._slots[0].chunk = 10
        it.queue.add([delivery(key) for key in range(10)])
        await eventually(lambda: len(it.settled) == 10)

    assert {key for key, ending in it.ends().items() if ending is not DeliveryEnding.DELIVERED} == {7}
    assert len(processes.started) >= 2


async def test_after_any_error_of_a_process_no_delivery_remains_leased() -> None:
    # Ray's memory monitor raises another class of error than the death of an actor does
    def play(it: ClaimedDelivery) -> Outcome:
        if it.timer_key == 7:
            raise RuntimeError("killed by the memory monitor")
        return Completed()

    processes = FakeProcesses(play)
    async with running(spec_of(concurrency=10), processes) as it:
        it.queue._slots[0].chunk = 10
        it.queue.add([delivery(key) for key in range(10)])
        await eventually(lambda: len(it.settled) == 10)

    assert {one.delivery.timer_key: one.reason for one in it.settled if one.fails} == {
        7: "killed by the memory monitor"
    }
    assert len(processes.started) > 1
    assert processes.started[0].killed


async def test_the_uncalled_deliveries_of_a_slow_handler_are_called_next() -> None:
    processes = FakeProcesses(slow_after=3)
    async with running(spec_of(is_async=False), processes) as it:
        it.queue._slots[0].chunk = 8
        it.queue.add([delivery(key) for key in range(8)])
        await eventually(lambda: len(it.settled) == 8)

    assert [key for chunk in processes.chunks for key in chunk] == list(range(8)), "in order, each once"
    assert sum(it.stats.lags["handler"].counts) == 8


async def test_a_delivery_that_another_worker_has_is_not_called() -> None:
    processes = FakeProcesses(gate=asyncio.Event())
    async with running(spec_of(is_async=False), processes) as it:
        mine, renewed_too_late, lost = (delivery(key, claims=3) for key in range(3))
        it.queue.add([mine])
        await eventually(lambda: processes.chunks == [[0]])
        it.queue.add([renewed_too_late, lost])
        it.lost.add(renewed_too_late.claim)

        it.queue.drop({lost.claim})

        assert len(it.queue) == 2
        assert processes.gate is not None
        processes.gate.set()
        await eventually(lambda: len(it.queue) == 0)
    assert processes.chunks == [[0]]
    assert it.ends() == {0: DeliveryEnding.DELIVERED}


async def test_a_batch_is_called_while_the_last_one_is_settled() -> None:
    processes = FakeProcesses(gate=asyncio.Event())
    async with running(spec_of(batch=50), processes) as it:
        it.queue.add([delivery(0)])
        await eventually(lambda: len(processes.chunks) == 1)
        assert processes.gate is not None
        processes.gate.set()
        await eventually(lambda: len(it.settled) == 1)
        processes.gate.clear()
        it.queue.add([delivery(key) for key in range(1, 151)])
        await eventually(lambda: len(processes.chunks) == 3)

        assert [len(chunk) for chunk in processes.chunks] == [1, 50, 50], "two at a time"
        processes.gate.set()
        await eventually(lambda: len(it.settled) == 151)


async def test_a_claim_waits_until_half_of_the_slots_are_free() -> None:
    processes = FakeProcesses(gate=asyncio.Event())
    async with running(spec_of(concurrency=10), processes) as it:
        most = it.queue.places
        it.queue.add([delivery(key) for key in range(most // 2 + 1)])
        assert it.queue.places == 0
        assert most == 10 * (1 + handler_queue.QUEUED_CHUNKS)
        assert processes.gate is not None
        processes.gate.set()
        await eventually(lambda: it.queue.places > 0)
        await eventually(lambda: len(it.settled) == most // 2 + 1)


async def test_with_large_payloads_there_are_fewer_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler_queue, "PAYLOADS_BYTES_MAX", 10_000)
    async with running(spec_of(concurrency=10), FakeProcesses()) as it:
        most = it.queue.places
        it.queue.add([delivery(1, payload='"' + "x" * 998 + '"'), delivery(2)])
        await eventually(lambda: len(it.settled) == 2)

        assert (most, it.queue.places) == (10 * (1 + handler_queue.QUEUED_CHUNKS), 20)


async def test_other_deliveries_in_a_process_that_one_delivery_ends_do_not_fail() -> None:
    processes = FakeProcesses(dies_of(1, 2, 3))
    async with running(spec_of(concurrency=10), processes) as it:
        it.queue.add([delivery(key) for key in range(10)])
        await eventually(lambda: len(it.settled) == 10)

    assert {key for key, ending in it.ends().items() if ending is None} == {1, 2, 3}


async def test_a_plain_handler_has_a_process_for_each_concurrent_call() -> None:
    processes = FakeProcesses(gate=asyncio.Event())
    async with running(spec_of(is_async=False, concurrency=3), processes) as it:
        it.queue.add([delivery(key) for key in range(5)])
        await eventually(lambda: len(processes.chunks) == 3)

        assert sorted(processes.chunks) == [[0], [1], [2]]
        assert len(it.queue) == 5
        assert processes.gate is not None
        processes.gate.set()
        await eventually(lambda: len(it.settled) == 5)


async def test_an_async_handler_is_called_side_by_side_up_to_its_limit() -> None:
    processes = FakeProcesses(gate=asyncio.Event())
    async with running(spec_of(concurrency=4), processes) as it:
        it.queue.add([delivery(0)])
        await eventually(lambda: len(processes.chunks) == 1)
        it.queue.add([delivery(key) for key in range(1, 10)])
        await eventually(lambda: len(processes.chunks) == 4)

        assert len(it.queue) == 10
        assert it.queue.places <= 4 * (1 + handler_queue.QUEUED_CHUNKS)


async def test_a_handler_is_called_no_more_often_than_its_rate() -> None:
    processes = FakeProcesses()
    began_s = time.monotonic()
    async with running(spec_of(rate_per_s=40.0), processes) as it:
        assert it.queue.places == 41, "no more than a second's worth waits in memory"
        it.queue.add([delivery(key) for key in range(9)])
        await eventually(lambda: len(it.settled) == 9)

    # The first delivery is called immediately, and the next eight one by one.
    assert time.monotonic() - began_s >= 8 / 40


async def test_a_high_rate_is_reached_though_the_loop_s_timers_are_late() -> None:
    def play(it: ClaimedDelivery) -> Outcome:
        late_until_s = time.monotonic() + (0.02 if it.timer_key == 150 else 0.0)
        while time.monotonic() < late_until_s:
            pass
        return Completed()

    processes = FakeProcesses(play)
    async with running(spec_of(rate_per_s=5_000.0), processes) as it:
        it.queue.add([delivery(key) for key in range(600)])
        await eventually(lambda: len(it.settled) == 600)

    # At the first timer after these 20 ms, one message has the calls of all of them.
    assert max(len(chunk) for chunk in processes.chunks if chunk[0] > 150) >= 50


async def test_a_rate_counts_calls_so_a_batch_is_not_divided() -> None:
    processes = FakeProcesses()
    began_s = time.monotonic()
    async with running(spec_of(batch=50, rate_per_s=20.0, concurrency=20), processes) as it:
        assert it.queue.places == 50 * 21, "no more than a second's worth waits in memory"
        it.queue.add([delivery(key) for key in range(270)])
        await eventually(lambda: len(it.settled) == 270)

    assert [len(chunk) for chunk in processes.chunks] == [50, 50, 50, 50, 50, 20]
    assert time.monotonic() - began_s >= 5 / 20, "one call at once, and five after it one by one"


async def test_an_expired_delivery_is_not_called() -> None:
    processes = FakeProcesses()
    async with running(spec_of(expires_after_s=10.0), processes) as it:
        it.queue.add([delivery(1, due_date=NOON - timedelta(seconds=30)), delivery(2)])
        await eventually(lambda: len(it.settled) == 2)

    assert it.ends() == {1: DeliveryEnding.DISCARDED, 2: DeliveryEnding.DELIVERED}
    assert processes.chunks == [[2]]


async def test_a_failure_of_a_handler_does_not_end_its_process() -> None:
    processes = FakeProcesses(lambda it: Failed("ValueError: no") if it.timer_key == 1 else Completed())
    async with running(spec_of(), processes) as it:
        it.queue.add([delivery(key) for key in range(3)])
        await eventually(lambda: len(it.settled) == 3)
        assert len(processes.started) == 1

    assert it.ends() == {0: DeliveryEnding.DELIVERED, 1: None, 2: DeliveryEnding.DELIVERED}


async def test_each_delivery_s_first_call_is_counted_once_with_its_lag() -> None:
    # After the death of their process, two deliveries are called again, each alone; one of the two has an earlier
    # attempt.
    processes = FakeProcesses(dies_of(1))
    async with running(spec_of(is_async=True, concurrency=10), processes) as it:
        it.queue.add([delivery(0)])
        await eventually(lambda: len(it.settled) == 1)
        it.queue.add([delivery(1), delivery(2), delivery(3, failed_attempts=2)])
        await eventually(lambda: len(it.settled) == 4)

    lags = it.stats.lags["handler"]
    assert sum(map(len, processes.chunks)) > 4, "some were called again"
    assert (sum(lags.counts), lags.sum_s) == (3, 3.0), "each was fired a second before"
