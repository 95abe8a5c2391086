"""Prove that a holder writes only to the exact row version that it claimed, even if it claims the row again later.

A client may change a timer, the same holder may lease the row again, and its older firing may still be in flight. The
tests combine each write of a holder (fire, plan, pause) with each change of a row by a client.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from shardclock_server.keepers.clock import seconds_of
from shardclock_server.shards.firing import firing_of, planning_of
from shardclock_server.shards.queue import TimerQueue
from shardclock_server.sql.claims.claim import leased_by, still_leased
from shardclock_server.sql.firing.fire import Firing, pause_faulty, plan_schedules
from shardclock_server.timers.model import ClaimedTimer
from tests.support.factories import (
    BOUND_S,
    HolderClient,
    add_holder,
    add_schedule,
    add_timers,
    ends,
    intents,
    query,
    value,
)

ME = 101
YEARLY = "0 0 8 1 1 *"
FIRED, MOVED, PAUSED = "TRIGGERED", "RESCHEDULED", "PAUSED"

Change = Callable[[HolderClient, int], Awaitable[object]]


@pytest.fixture
async def shard(each_dsn: str) -> AsyncIterator[HolderClient]:
    await add_holder(each_dsn, ME)
    async with HolderClient(each_dsn, holder=ME) as hand:
        yield hand


@pytest.fixture
async def late(shard: HolderClient) -> AsyncIterator[HolderClient]:
    """Yield the same holder's other connection, with an older message in flight."""
    async with HolderClient(shard.dsn, holder=ME) as hand:
        yield hand


@pytest.fixture
async def client(shard: HolderClient) -> AsyncIterator[HolderClient]:
    async with HolderClient(shard.dsn, plans={}) as hand:
        yield hand


async def becomes_a_schedule(client: HolderClient, key: int) -> None:
    assert await client.reschedule(timer_key=key, schedule=YEARLY) == MOVED


async def moves_and_runs_now(client: HolderClient, key: int) -> None:
    assert await client.reschedule(timer_key=key, shift="PT1H") == MOVED
    assert await client.value("select shardclock.run_timer(timer_key => $1)", key) == MOVED


async def pauses_and_resumes(client: HolderClient, key: int) -> None:
    assert await client.value("select shardclock.pause_timer(timer_key => $1)", key) == PAUSED
    assert await client.value("select shardclock.resume_timer(timer_key => $1)", key) == "PENDING"


async def changes_the_payload(client: HolderClient, key: int) -> None:
    text = "update shardclock.timers set payload = '{}', claimed_by = null, claimed_until = null where timer_key = $1"
    await client.value(text, key)


CHANGES: tuple[Change, ...] = (becomes_a_schedule, moves_and_runs_now, pauses_and_resumes, changes_the_payload)


async def lease(shard: HolderClient, key: int) -> ClaimedTimer:
    (timer,) = (await shard.take()).claimed
    assert timer.timer_key == key
    return timer


async def row(dsn: str) -> dict[str, object]:
    (found,) = await query(dsn, "select t.*, t.xmin from shardclock.timers t")
    return dict(found)


async def plain(dsn: str) -> int:
    return (await add_timers(dsn, 1))[0]


KINDS = {"plain": plain, "schedule": add_schedule}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", CHANGES)
async def test_an_older_firing_of_the_same_holder_is_fenced_after_a_change_and_a_new_lease(
    shard: HolderClient, client: HolderClient, kind: str, change: Change
) -> None:
    key = await KINDS[kind](shard.dsn)
    now = await shard.value("select now()")
    older = firing_of(await lease(shard, key), now)
    await change(client, key)
    newer = await lease(shard, key)
    before = await row(shard.dsn)

    assert await shard.send([older]) == frozenset()

    assert await row(shard.dsn) == before
    assert (await intents(shard.dsn))[key, FIRED] == 0
    if newer.anchor_occurrence is not None:
        assert (await shard.fire([newer])).timer_keys == {key}, "it fires the newer row"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", CHANGES)
async def test_an_older_firing_that_is_sent_while_the_change_commits_is_fenced(
    shard: HolderClient, late: HolderClient, client: HolderClient, kind: str, change: Change
) -> None:
    key = await KINDS[kind](shard.dsn)
    older = firing_of(await lease(shard, key), await shard.value("select now()"))
    await client.begin()
    await change(client, key)

    assert await late.send([older]) == frozenset(), "it skips a locked row"
    await client.commit()
    await lease(shard, key)

    assert await late.send([older]) == frozenset()
    assert (await intents(shard.dsn))[key, FIRED] == 0


async def test_an_older_plan_of_the_same_holder_does_not_overwrite_a_newer_rule(
    shard: HolderClient, client: HolderClient
) -> None:
    key = await plain(shard.dsn)
    await becomes_a_schedule(client, key)
    older = planning_of(await lease(shard, key))
    assert await client.reschedule(timer_key=key, schedule="0 0 9 2 2 *") == MOVED
    newer = planning_of(await lease(shard, key))

    assert await plan_schedules(shard.session, ME, [older]) == frozenset()
    assert await value(shard.dsn, "select schedule from shardclock.timers") == "0 0 9 2 2 *"

    assert await plan_schedules(shard.session, ME, [newer]) == {key}
    assert await value(shard.dsn, "select to_char(due_date, 'MM-DD HH24') from shardclock.timers") == "02-02 09"


@pytest.mark.parametrize("change", CHANGES)
async def test_a_changed_timer_is_not_paused_for_its_old_fault(
    shard: HolderClient, client: HolderClient, change: Change
) -> None:
    key = await plain(shard.dsn)
    older = await lease(shard, key)
    await change(client, key)
    newer = await lease(shard, key)

    assert not await pause_faulty(shard.session, ME, older, why="its data")
    assert await value(shard.dsn, "select paused_due_date from shardclock.timers") is None

    assert await pause_faulty(shard.session, ME, newer, why="its data")
    assert (await intents(shard.dsn))[key, PAUSED] == (2 if change is pauses_and_resumes else 1)


async def test_a_repeated_claim_returns_a_leased_timer_with_its_current_version(
    shard: HolderClient, client: HolderClient
) -> None:
    """A user's own update keeps the lease: the holder reads the new row version, and fires this version."""
    key = await plain(shard.dsn)
    older = await lease(shard, key)
    await client.value("update shardclock.timers set payload = '[1]' where timer_key = $1", key)
    assert await shard.send([Firing(older)]) == frozenset()

    (now_held,) = await still_leased(shard.session, ME, [key])

    assert now_held.timer.version != older.version
    assert await shard.send([Firing(now_held.timer)]) == {key}
    assert await value(shard.dsn, "select payload from shardclock.command_log where intent = 'TRIGGERED'") == "[1]"


async def test_a_batch_of_many_claims_fires_each_row_at_its_own_version(
    shard: HolderClient, client: HolderClient
) -> None:
    """Each version is compared with its own row, because one timer's version is not valid for another timer."""
    first, second = await add_timers(shard.dsn, 2)
    one, two = (await shard.take()).claimed
    await changes_the_payload(client, second)
    again = await lease(shard, second)
    await changes_the_payload(client, first)
    once_more = await lease(shard, first)
    assert len({one.version, again.version, once_more.version}) == 3

    assert await shard.send([Firing(one), Firing(again)]) == {second}
    assert await shard.send([Firing(once_more), Firing(two)]) == {first}


async def test_the_newer_lease_is_kept_in_memory_even_if_the_clock_was_set_back_in_between(
    shard: HolderClient, client: HolderClient
) -> None:
    """A client runs a timer that was leased while the clock was an hour ahead: the run must not wait for this hour."""
    key = await add_schedule(shard.dsn, due="now() + interval '1 h'")
    shard.now = await shard.value("select now() + interval '1 h'")
    older = await lease(shard, key)
    shard.now = None
    await client.value("select shardclock.run_timer(name => 'beat')")
    newer = await lease(shard, key)
    assert newer.due_date < older.due_date

    for order in ([older, newer], [newer, older]):
        queue = TimerQueue()
        for each in order:
            queue.add([each])
        assert queue.pop_due(seconds_of(older.due_date), 10) == [newer]


async def test_each_answer_about_a_timer_is_newer_than_the_one_before(shard: HolderClient) -> None:
    await plain(shard.dsn)
    (claimed,) = (await shard.take()).claimed
    (recalled,) = await leased_by(shard.session, ME, horizon_s=2.0, lease_s=10.0)
    (checked,) = await still_leased(shard.session, ME, [claimed.timer_key])

    assert claimed.request_number < recalled.request_number < checked.timer.request_number
    assert {replace(each, request_number=0) for each in (claimed, recalled, checked.timer)} == {
        replace(claimed, request_number=0)
    }


async def test_a_late_answer_is_older_than_the_answer_to_a_later_statement(
    shard: HolderClient, late: HolderClient, client: HolderClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await plain(shard.dsn)
    await lease(shard, key)
    read, arrives = asyncio.Event(), asyncio.Event()
    rows = late.session.rows

    async def slow(name: str, /, **values: Any) -> Any:
        answer = await rows(name, **values)
        read.set()
        await arrives.wait()
        return answer

    monkeypatch.setattr(late.session, "rows", slow)
    checking = asyncio.create_task(still_leased(late.session, ME, [key]))
    await asyncio.wait_for(read.wait(), BOUND_S)
    await changes_the_payload(client, key)
    newer = await lease(shard, key)
    arrives.set()

    (older,) = await ends(checking)

    assert older.timer.request_number < newer.request_number


@pytest.mark.parametrize("kind", KINDS)
async def test_a_matching_version_does_not_fire_a_row_of_another_holder(shard: HolderClient, kind: str) -> None:
    """After a failover to a replica that lagged, another holder's lease may have the same number as this holder's
    lease.
    """
    await KINDS[kind](shard.dsn)
    await shard.begin()
    (held,) = (await shard.take()).claimed
    await shard.value("update shardclock.timers set claimed_by = 102")
    await shard.commit()
    assert await value(shard.dsn, "select xmin from shardclock.timers") == held.version

    assert (await shard.fire([held])).timer_keys == frozenset()
    assert not await pause_faulty(shard.session, ME, held, why="its data")


ACTS = ("lease", "lease", "change", "change", "fire the first lease", "fire the second lease")


@pytest.mark.parametrize("kind", KINDS)
async def test_only_the_newest_known_version_fires_in_any_order_of_leases_changes_and_firings(
    dsn: str, kind: str
) -> None:
    """Try every order: a firing succeeds if and only if no client has changed the row since its lease."""
    await add_holder(dsn, ME)
    async with HolderClient(dsn, holder=ME) as shard, HolderClient(dsn, plans={}) as client:
        for order in sorted(set(permutations(ACTS))):
            key = await KINDS[kind](dsn)
            leases: list[ClaimedTimer] = []
            current, fired = None, False
            for act in order:
                if act == "lease":
                    taken = (await shard.take()).claimed
                    leases += taken
                    current = taken[0] if taken else current
                elif act == "change":
                    await changes_the_payload(client, key)
                    current = None
                else:
                    number = ACTS.index(act) - ACTS.index("fire the first lease")
                    sent = leases[number : number + 1]
                    went = (await shard.fire(sent)).timer_keys if sent else frozenset()
                    assert (key in went) == (bool(sent) and sent[0] is current), order
                    fired |= key in went
                    current = None if key in went else current
                if fired:
                    break
            assert (await intents(dsn))[key, FIRED] == fired, order
            await query(dsn, "delete from shardclock.timers")
