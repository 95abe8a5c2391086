"""Prove that each change of a timer by a client's verb is counted once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from shardclock_server.sql.firing.fire import pause_faulty
from shardclock_server.sql.metrics.measures import measure_cluster
from shardclock_server.sql.session import Session
from tests.support.factories import HolderClient, add_holder, add_schedule, add_timers
from tests.support.roles import as_role

FAR = "now() + interval '1 day' + i * interval '1 second'"
CALLS = {
    "cancel_timer(timer_key => $1)": ("canceled", 1),
    "cancel_timer(name => 'n1')": ("canceled", 1),
    "cancel_timers(array[$1, $2, -1])": ("canceled", 2),
    "cancel_process_instance(7)": ("canceled", 3),
    "pause_timer(timer_key => $1)": ("paused", 1),
    "pause_timers(array[$1, $2, -1])": ("paused", 2),
    "resume_timer(name => 'n3')": ("resumed", 1),
    "resume_timers(array[$1, $2, $3])": ("resumed", 1),
    "reschedule_timer(timer_key => $1, delay => 'PT1H')": ("rescheduled", 1),
    "reschedule_timer(name => 'n1', shift => 'PT1H')": ("rescheduled", 1),
    "reschedule_timer(timer_key => $1, schedule => '0 8 * * MON')": ("rescheduled", 1),
    "reschedule_timer(timer_key => $3, delay => 'PT1H')": ("rescheduled", 1),
    "shift_timers(array[$1, $2, $3], 'PT1H')": ("rescheduled", 3),
    "run_timer(timer_key => $1)": ("rescheduled", 1),
    "run_timers(array[$1, $2, $3])": ("rescheduled", 2),
    # A call that changes nothing is not counted.
    "cancel_timer(timer_key => -1)": ("canceled", 0),
    "pause_timer(timer_key => $3)": ("paused", 0),
    "resume_timer(timer_key => $1)": ("resumed", 0),
    "run_timer(timer_key => $3)": ("rescheduled", 0),
    "schedule_timer(delay => 'PT1H')": ("canceled", 0),
}


@pytest.fixture
async def three(dsn: str) -> AsyncIterator[tuple[HolderClient, Sequence[int]]]:
    """Yield three timers of one process instance (the last timer is paused) and a client."""
    keys = await add_timers(dsn, 3, FAR, name="'n' || i", process_instance_key="7")
    async with HolderClient(dsn) as client:
        await client.value("select shardclock.pause_timers(array[$1::bigint])", keys[2])
        yield client, keys


async def counted(dsn: str) -> dict[str, int]:
    async with Session(as_role(dsn, "reader"), application="test") as session:
        it = await measure_cluster(session)
    return {"canceled": it.canceled, "rescheduled": it.rescheduled, "paused": it.pauses, "resumed": it.resumed}


@pytest.mark.parametrize(("call", "outcome"), CALLS.items(), ids=CALLS)
async def test_each_timer_that_a_verb_changed_is_counted_once(
    dsn: str, three: tuple[HolderClient, Sequence[int]], call: str, outcome: tuple[str, int]
) -> None:
    client, keys = three
    before = await counted(dsn)
    for number, key in enumerate(keys, 1):
        call = call.replace(f"${number}", str(key))

    await client.value(f"select count(*) from shardclock.{call}")

    verb, times = outcome
    assert await counted(dsn) == before | {verb: before[verb] + times}


async def test_a_shards_changes_do_not_count_as_clients_changes(dsn: str) -> None:
    await add_timers(dsn, 2)
    await add_schedule(dsn)
    await add_holder(dsn, 1)
    async with HolderClient(dsn, holder=1) as shard:
        taken = await shard.take()
        await shard.fire(taken.claimed)
        await add_timers(dsn, 1)
        (timer,) = (await shard.take()).claimed
        assert await pause_faulty(shard.session, 1, timer, why="unreadable")

    assert await counted(dsn) == dict.fromkeys(("canceled", "rescheduled", "paused", "resumed"), 0)


async def test_rolled_back_changes_are_counted_and_no_count_waits_for_another_count(dsn: str) -> None:
    first, second = await add_timers(dsn, 2, FAR)
    async with HolderClient(dsn) as undecided:
        await undecided.begin()
        await undecided.cancel(timer_key=first)

        async with HolderClient(dsn) as other:
            await other.cancel(timer_key=second)

        assert (await counted(dsn))["canceled"] == 2
    assert (await counted(dsn))["canceled"] == 2, "as in Postgres's own statistics"
