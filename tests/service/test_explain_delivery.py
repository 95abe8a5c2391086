"""`explain` reports how the delivery to a fired timer's target ended."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from datetime import datetime

import pytest

from shardclock_server.service.explain import Explanation, explain
from shardclock_server.service.hold import hold
from shardclock_server.service.timeline import read_timeline
from shardclock_server.sql.clients.verbs import TimerRef
from shardclock_server.sql.deliveries.claim import ClaimedDelivery
from shardclock_server.sql.deliveries.dead_letters import discard_dead_letters, redrive_dead_letters
from shardclock_server.sql.deliveries.settle import Settlement
from tests.support.deliveries import WorkerClient, dead, deliver, done, failed, serving_worker
from tests.support.factories import HolderClient, add_timers, query

STALE = """
    insert into shardclock.command_log
        (timer_key, due_date, created_at, occurrence, intent, tenant_id, timer_type, target)
    select timer_key, due_date, created_at, 1, 'STALE', tenant_id, timer_type, target from shardclock.command_log
"""


@pytest.fixture
async def worker(dsn: str) -> AsyncIterator[WorkerClient]:
    """Start a worker that the test steps by hand, and declare its handler."""
    async with serving_worker(dsn, 0xCAFE) as hand:
        yield hand


async def why(shard: HolderClient, which: TimerRef) -> Explanation:
    """Explain the present moment."""
    now: datetime = await shard.value("select clock_timestamp()")
    return explain(await read_timeline(shard.session, which, now, now, identity="", silent_s=5.0), now)


@pytest.mark.parametrize(
    ("ends", "told"),
    [
        (done, r"; delivered to order\.expired at \S+ \S+Z, at attempt 1$"),
        (dead, r"; given up: a dead letter of order\.expired at \S+ \S+Z, at attempt 1: it raised too often$"),
    ],
)
async def test_a_firing_is_explained_with_the_end_of_its_delivery(
    shard: HolderClient, worker: WorkerClient, ends: Callable[[ClaimedDelivery], Settlement], told: str
) -> None:
    (key,) = await deliver(shard)
    await worker.settle(*map(ends, await worker.take()))

    assert re.search(told, (await why(shard, TimerRef(key))).why)


async def test_a_delivery_that_will_be_retried_is_explained_with_its_last_failure(
    shard: HolderClient, worker: WorkerClient
) -> None:
    (key,) = await deliver(shard)
    await worker.settle(*(failed(it, reason="ValueError: no such order") for it in await worker.take()))

    answer = (await why(shard, TimerRef(key))).why

    waits = r"; the delivery to order\.expired waits after 1 failed attempt, the next attempt is due at \S+ \S+Z"
    assert re.search(rf"{waits}; the last attempt failed: ValueError: no such order$", answer)


async def test_a_redriven_dead_letter_is_explained_as_a_delivery(shard: HolderClient, worker: WorkerClient) -> None:
    (key,) = await deliver(shard)
    await worker.settle(*map(dead, await worker.take()))

    await redrive_dead_letters(shard.session, [key])
    waits = (await why(shard, TimerRef(key))).why
    taken = await worker.take()
    in_hand = (await why(shard, TimerRef(key))).why
    await worker.settle(*map(done, taken))
    ended = (await why(shard, TimerRef(key))).why

    assert re.search(r"; the delivery to order\.expired waits, the next attempt is due at \S+ \S+Z$", waits)
    assert in_hand.endswith("; worker 000000000000cafe has claimed the delivery to order.expired")
    assert "; delivered to order.expired at " in ended


async def test_a_late_attempt_is_explained_by_the_hold_or_by_the_worker(
    dsn: str, shard: HolderClient, worker: WorkerClient
) -> None:
    (key,) = await deliver(shard)
    await query(dsn, "update shardclock.deliveries set next_attempt_at = now() - interval '1 hour'")

    waits = (await why(shard, TimerRef(key))).why
    await hold(shard.session, "billing is down")
    held = (await why(shard, TimerRef(key))).why

    assert re.search(r"the next attempt was due at \S+ \S+Z; it waits for a free worker, or for the end of ", waits)
    assert held.endswith("; a hold delays it (an operator said: billing is down)")


async def test_a_discarded_dead_letter_is_explained_with_the_author_and_without_an_attempt(
    shard: HolderClient, worker: WorkerClient
) -> None:
    (key,) = await deliver(shard)
    await worker.settle(*map(dead, await worker.take()))
    await discard_dead_letters(shard.session, [key], reason="refunded by hand")

    answer = (await why(shard, TimerRef(key))).why

    told = r"; the delivery to order\.expired was discarded at \S+ \S+Z by test_operator \(refunded by hand\)$"
    assert re.search(told, answer)


async def test_a_dead_letter_is_explained_with_its_reason_after_the_log_has_dropped_its_record(
    dsn: str, shard: HolderClient, worker: WorkerClient
) -> None:
    (key,) = await deliver(shard)
    await worker.settle(*map(dead, await worker.take()))
    await query(dsn, "delete from shardclock.command_log where intent = 'DEAD'")

    answer = (await why(shard, TimerRef(key))).why

    assert answer.endswith("; given up: a dead letter of order.expired after 1 failed attempt: it raised too often")


@pytest.mark.parametrize(
    ("ends", "told"),
    [
        ("delete from shardclock.deliveries", "; the instance has received it"),
        (STALE, "; too late for process:instance at "),
        ("select", "; the delivery to process:instance waits, the next attempt is due at "),
    ],
)
async def test_a_timer_of_a_process_is_explained_with_the_state_of_its_signal(
    dsn: str, shard: HolderClient, ends: str, told: str
) -> None:
    (key,) = await add_timers(dsn, 1, "now()", target="'process:instance'", process_instance_key="7")
    await shard.take(fire_overdue=True)
    await query(dsn, ends)

    assert told in (await why(shard, TimerRef(key))).why
