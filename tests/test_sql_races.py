"""Prove that a timer fires once or ends as it was told, whichever of those who race for it comes first."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from shards.firing import firing_of
from sql.claims import Firing, Scope, still_held
from sql.holders import end_holders
from sql.session import StatementRefused
from tests.store import BOUND_S, Hand, add_holder, add_schedule, add_timers, ends, intents, query, value, waits
from timers.model import ClaimedTimer

A, B = 101, 102
FIRED, CANCELED, MOVED, SKIPPED = "TRIGGERED", "CANCELED", "RESCHEDULED", "SKIPPED"
SCOPES: tuple[Scope, ...] = ("own", "all", "backlog")


@pytest.fixture
async def shards(dsn: str) -> AsyncIterator[tuple[Hand, Hand]]:
    """Give two holders that believe to keep all slots."""
    await add_holder(dsn, A)
    await add_holder(dsn, B)
    async with Hand(dsn, holder=A) as one, Hand(dsn, holder=B) as two:
        one.now = two.now = await one.value("select now()")
        yield one, two


@pytest.fixture
async def client(dsn: str) -> AsyncIterator[Hand]:
    """Give a client."""
    async with Hand(dsn, plans={}) as hand:
        yield hand


def later(hand: Hand, seconds: float) -> None:
    """Move a holder's time."""
    assert hand.now is not None
    hand.now += timedelta(seconds=seconds)


async def pending(dsn: str) -> list[int]:
    """List the timers that are still to fire."""
    rows = await query(dsn, "select timer_key from shardclock.timers order by timer_key")
    return [row["timer_key"] for row in rows]


# Leases, zombies, takeover


async def test_a_leased_timer_is_nobody_elses_until_its_lease_ends(dsn: str, shards: tuple[Hand, Hand]) -> None:
    one, two = shards
    (key,) = await add_timers(dsn, 1, "now() + interval '1 second'")
    assert [timer.timer_key for timer in (await one.take()).claimed] == [key]

    later(two, 9.9)
    assert (await two.take()).claimed == []
    assert (await two.take(fuse=True)).fired == 0
    assert (await two.take(scope="all", horizon_s=-3)).claimed == []

    later(two, 0.1)
    assert [timer.timer_key for timer in (await two.take()).claimed] == [key]


async def suspend(dsn: str, holder: int, *, until_heard: bool = True) -> None:
    """Suspend a holder, or resume it, as its coordinator does."""
    text = "update shardclock.holders set suspended_at = case when $2 then now() end where holder = $1"
    await query(dsn, text, holder, until_heard)


@pytest.mark.parametrize("how", ["lease_ran_out", "holder_ended", "holder_suspended"])
async def test_a_zombie_whose_timer_was_taken_over_fires_nothing(dsn: str, shards: tuple[Hand, Hand], how: str) -> None:
    zombie, heir = shards
    (key,) = await add_timers(dsn, 1)
    held = (await zombie.take()).claimed
    if how == "holder_ended":
        await end_holders(heir.session, [zombie.holder], why="silent")
    elif how == "holder_suspended":
        await suspend(dsn, zombie.holder)
    else:
        later(heir, 10)
    inherited = (await heir.take()).claimed
    assert [timer.timer_key for timer in inherited] == [key]

    assert (await zombie.fire(held)).timer_keys == frozenset()
    assert await still_held(zombie.session, zombie.holder, [key]) == []
    assert (await heir.fire(inherited)).timer_keys == {key}
    assert (await zombie.fire(held)).timer_keys == frozenset()

    assert await intents(dsn) == {(key, FIRED): 1}
    assert await value(dsn, "select holder from shardclock.command_log") == heir.holder


@pytest.mark.parametrize("scope", SCOPES)
async def test_what_a_suspended_holder_claims_is_free_until_it_is_resumed(
    dsn: str, shards: tuple[Hand, Hand], scope: Scope
) -> None:
    silent, other = shards
    # In one slot: a walk over tenants takes more of them than one over slots.
    await add_timers(dsn, 4, "now() - interval '1 minute'", tenant_id="'acme'", timer_key="840 * i")
    walk: dict[str, Any] = {"scope": scope, "horizon_s": -10 if scope == "backlog" else 2.0}
    walk |= {"floor_s": 10.0} if scope == "backlog" else {}
    assert len((await silent.take(**walk)).claimed) == 4

    await suspend(dsn, silent.holder)
    await suspend(dsn, silent.holder, until_heard=False)
    assert (await other.take(**walk)).claimed == []

    await suspend(dsn, silent.holder)
    assert (await silent.take(**walk)).claimed == [], "nobody takes from itself"
    assert len((await other.take(**walk)).claimed) == 4
    await suspend(dsn, silent.holder, until_heard=False)
    assert (await silent.take(**walk)).claimed == [], "what was taken stays taken"


async def test_a_suspended_shard_that_comes_to_fires_what_nobody_has_taken_and_nothing_else(
    dsn: str, shards: tuple[Hand, Hand]
) -> None:
    awake, heir = shards
    keys = await add_timers(dsn, 10)
    held = (await awake.take()).claimed
    await suspend(dsn, awake.holder)
    taken = {timer.timer_key for timer in (await heir.take(batch=4)).claimed}
    assert 0 < len(taken) < 10

    assert (await awake.fire(held)).timer_keys == set(keys) - taken
    assert (await heir.take()).claimed == []
    assert await pending(dsn) == sorted(taken)


@pytest.mark.parametrize("scope", SCOPES)
async def test_a_claim_that_ends_later_than_any_can_was_taken_by_a_clock_that_was_set_back(
    dsn: str, shards: tuple[Hand, Hand], scope: Scope
) -> None:
    ahead, heir = shards
    # In one slot: a walk over tenants takes more of them than one over slots.
    await add_timers(dsn, 4, "now() - interval '2 hours'", tenant_id="'acme'", timer_key="840 * i")
    walk: dict[str, Any] = {"scope": scope, "horizon_s": -10 if scope == "backlog" else 2.0}
    walk |= {"floor_s": 10.0} if scope == "backlog" else {}
    assert len((await ahead.take(**walk)).claimed) == 4

    later(heir, -10)
    assert (await heir.take(**walk)).claimed == [], "two leases ahead: another's may be longer"
    later(heir, -3600)
    assert len((await heir.take(**walk)).claimed) == 4


async def test_a_zombie_that_fires_while_the_takeover_commits_is_fenced(dsn: str, shards: tuple[Hand, Hand]) -> None:
    zombie, heir = shards
    (key,) = await add_timers(dsn, 1)
    held = (await zombie.take()).claimed
    later(heir, 10)
    await heir.begin()
    inherited = (await heir.take()).claimed

    assert (await zombie.fire(held)).timer_keys == frozenset(), "it goes around a row that somebody has locked"
    await heir.commit()

    assert (await zombie.fire(held)).timer_keys == frozenset()
    assert (await heir.fire(inherited)).timer_keys == {key}
    assert await intents(dsn) == {(key, FIRED): 1}


async def test_a_takeover_goes_around_a_timer_that_its_zombie_is_just_firing(
    dsn: str, shards: tuple[Hand, Hand]
) -> None:
    zombie, heir = shards
    (key,) = await add_timers(dsn, 1)
    held = (await zombie.take()).claimed
    later(heir, 10)
    await zombie.begin()
    assert (await zombie.fire(held)).timer_keys == {key}

    assert (await heir.take()).claimed == []
    assert (await heir.take(fuse=True)).fired == 0
    await zombie.commit()

    assert (await heir.take(fuse=True)).fired == 0
    assert await intents(dsn) == {(key, FIRED): 1}


async def test_a_late_fire_of_a_lease_that_nobody_took_over_is_good(dsn: str, shards: tuple[Hand, Hand]) -> None:
    late, other = shards
    (key,) = await add_timers(dsn, 1)
    held = (await late.take()).claimed
    later(late, 60)

    assert (await late.fire(held)).timer_keys == {key}
    later(other, 60)
    assert (await other.take(fuse=True)).fired == 0


async def test_a_holder_that_was_ended_takes_nothing_more(dsn: str, shards: tuple[Hand, Hand]) -> None:
    ended, other = shards
    await add_timers(dsn, 1)
    await end_holders(other.session, [ended.holder], why="silent")

    for scope in SCOPES:
        taken = await ended.take(scope=scope, fuse=True)
        assert (taken.fired, taken.claimed) == (0, [])


async def test_a_holder_without_a_shard_takes_only_what_it_sweeps(dsn: str) -> None:
    await add_holder(dsn, A, None, None)
    await add_timers(dsn, 1, "now() - interval '1 minute'")
    async with Hand(dsn, holder=A) as spare:
        assert (await spare.take(fuse=True)).fired == 0
        assert (await spare.take(scope="all", horizon_s=-120, fuse=True)).fired == 0
        assert (await spare.take(scope="all", horizon_s=-3, fuse=True)).fired == 1


# Two shards on the same slots


@pytest.mark.parametrize("fuse", [False, True], ids=["claims", "fused"])
async def test_two_shards_that_take_the_same_slots_have_each_timer_once(
    dsn: str, shards: tuple[Hand, Hand], fuse: bool
) -> None:
    keys = await add_timers(dsn, 2_000)

    async def work(shard: Hand) -> list[int]:
        held: list[ClaimedTimer] = []
        seen = []
        # A walk of the other one may lock for a moment what it then finds claimed; then it is fired the next time.
        while len(await intents(dsn)) < len(keys):
            taken = await shard.take(fuse=fuse, batch=840)
            seen += [timer.timer_key for timer in taken.claimed]
            held += taken.claimed
            fired = await shard.fire(held)
            held = [timer for timer in held if timer.timer_key not in fired.timer_keys]
        return seen

    async with asyncio.timeout(BOUND_S):
        by_one, by_two = await asyncio.gather(*(work(shard) for shard in shards))

    assert await intents(dsn) == dict.fromkeys([(key, FIRED) for key in keys], 1)
    assert await pending(dsn) == []
    assert set(by_one) & set(by_two) == set()
    assert sorted(by_one + by_two) == ([] if fuse else keys)


async def test_a_shard_goes_around_what_another_has_locked(dsn: str, shards: tuple[Hand, Hand]) -> None:
    one, two = shards
    keys = await add_timers(dsn, 20)
    await one.begin()
    mine = [timer.timer_key for timer in (await one.take(batch=840)).claimed]

    theirs = [timer.timer_key for timer in (await two.take()).claimed]
    await one.commit()

    assert sorted(mine + theirs) == keys
    assert len(mine) == 20, "one of each slot"


@pytest.mark.parametrize("count", [1, 2, 7, 11, 840])
async def test_shards_share_all_slots_between_them_and_none_twice(dsn: str, count: int) -> None:
    keys = await add_timers(dsn, 840)
    await add_holder(dsn, A)
    async with Hand(dsn, holder=A) as shard:
        taken = []
        for number in range(count):
            await shard.value("update shardclock.holders set shard = $1, shard_count = $2", number, count)
            mine = [timer.timer_key for timer in (await shard.take()).claimed]
            assert {key % 840 % count for key in mine} == {number}
            taken += mine

    assert sorted(taken) == keys


# Time


async def test_nothing_fires_before_its_due_date_however_time_is_moved(dsn: str, shards: tuple[Hand, Hand]) -> None:
    shard, _ = shards
    assert shard.now
    (key,) = await add_timers(dsn, 1, "now() + interval '1.5 seconds'")
    due: datetime = await value(dsn, "select due_date from shardclock.timers")
    held = (await shard.take(fuse=True)).claimed
    assert [timer.timer_key for timer in held] == [key], "within the horizon it is leased, not fired"

    for now in (shard.now, due - timedelta(microseconds=1)):
        shard.now = now
        assert (await shard.fire(held)).timer_keys == frozenset()
    shard.now = due

    assert (await shard.fire(held)).timer_keys == {key}


async def test_the_database_s_clock_decides_when_none_is_given(dsn: str, shards: tuple[Hand, Hand]) -> None:
    shard, _ = shards
    soon, due = await add_timers(dsn, 2, "now() + (i * -20 + 25) * interval '1 minute'")
    shard.now = None

    held = (await shard.take(horizon_s=3600)).claimed

    assert [timer.timer_key for timer in held] == [due, soon]
    assert (await shard.send([Firing(timer) for timer in held])) == {due}


async def test_a_look_ahead_passes_over_a_backlog(dsn: str, shards: tuple[Hand, Hand]) -> None:
    """What has fallen due since the last look is fired, what soon will be is leased; else both came after the herd."""
    shard, _ = shards
    await add_timers(dsn, 100, "now() - interval '5 seconds'")
    since, soon = await add_timers(dsn, 2, "now() + (i * 2 - 3) * interval '1 second'")

    taken = await shard.take(scope="ahead", floor_s=2.5, batch=50, fuse=True)

    assert (taken.fired, [timer.timer_key for timer in taken.claimed]) == (1, [soon])
    assert await intents(dsn) == {(since, FIRED): 1}
    assert (await shard.take(horizon_s=0, batch=50, fuse=True)).fired == 50


# Cancel and fire


async def test_a_cancel_that_comes_first_stops_the_fire(dsn: str, shards: tuple[Hand, Hand], client: Hand) -> None:
    shard, _ = shards
    (key,) = await add_timers(dsn, 1)
    held = (await shard.take()).claimed

    assert await client.cancel(timer_key=key) == CANCELED
    assert (await shard.fire(held)).timer_keys == frozenset()

    assert await intents(dsn) == {(key, CANCELED): 1}


async def test_a_cancel_that_comes_too_late_says_that_the_timer_fired(
    dsn: str, shards: tuple[Hand, Hand], client: Hand
) -> None:
    shard, _ = shards
    (key,) = await add_timers(dsn, 1, name="'n'")
    await shard.fire((await shard.take()).claimed)

    assert await client.cancel(timer_key=key) == FIRED
    assert await client.cancel(name="n") == FIRED

    assert await intents(dsn) == {(key, FIRED): 1}


@pytest.mark.parametrize("fuse", [False, True], ids=["leased", "fused"])
@pytest.mark.parametrize("by_name", [False, True], ids=["by_key", "by_name"])
async def test_a_cancel_waits_for_a_fire_under_way_and_tells_how_it_ended(
    dsn: str, shards: tuple[Hand, Hand], client: Hand, *, fuse: bool, by_name: bool
) -> None:
    shard, _ = shards
    for commits in (False, True):
        (key,) = await add_timers(dsn, 1, name="'n'")
        await shard.begin()
        await shard.fire((await shard.take(fuse=fuse)).claimed)
        canceling = await waits(client, client.cancel(**({"name": "n"} if by_name else {"timer_key": key})))

        await (shard.commit() if commits else shard.rollback())

        assert await ends(canceling) == (FIRED if commits else CANCELED)
        assert (await intents(dsn))[(key, FIRED if commits else CANCELED)] == 1
        assert await pending(dsn) == []


async def test_a_fire_goes_around_a_timer_whose_cancel_is_under_way(
    dsn: str, shards: tuple[Hand, Hand], client: Hand
) -> None:
    shard, _ = shards
    first, second, third = await add_timers(dsn, 3)
    held = (await shard.take()).claimed
    await client.begin()
    await client.cancel(timer_key=second)

    assert (await shard.fire(held)).timer_keys == {first, third}, "nobody else's timer waits for the client"
    assert [timer.timer_key for timer in await still_held(shard.session, A, [second])] == [second]
    await client.rollback()

    assert (await shard.fire(held)).timer_keys == {second}, "a cancel that was undone is none"
    assert await intents(dsn) == {(first, FIRED): 1, (second, FIRED): 1, (third, FIRED): 1}


async def test_a_cancelled_name_is_free_at_once_and_its_next_bearer_is_another_timer(
    dsn: str, shards: tuple[Hand, Hand], client: Hand
) -> None:
    shard, _ = shards
    (old,) = await add_timers(dsn, 1, name="'n'")
    held = (await shard.take()).claimed
    await client.cancel(name="n")
    (new,) = await add_timers(dsn, 1, name="'n'")

    assert (await shard.fire(held)).timer_keys == frozenset()
    assert await client.cancel(name="n") == CANCELED
    assert await intents(dsn) == {(old, CANCELED): 1, (new, CANCELED): 1}


# Schedules


async def test_a_schedule_s_next_occurrence_comes_with_the_fire_and_carries_on_what_it_was(
    dsn: str, shards: tuple[Hand, Hand]
) -> None:
    shard, _ = shards
    columns = {"payload": "'{\"a\": 1}'", "process_instance_key": "7", "element_instance_key": "8"}
    columns |= {"tenant_id": "'acme'", "timer_type": "'START_EVENT'", "target_element_id": "'start'"}
    key = await add_schedule(dsn, **columns)
    before = dict((await query(dsn, "select * from shardclock.timers"))[0])

    await shard.fire((await shard.take(fuse=True)).claimed)

    after = dict((await query(dsn, "select * from shardclock.timers"))[0])
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"timer_key", "slot", "due_date", "occurrence", "created_at"}
    assert after["occurrence"] == 2
    assert after["due_date"] == before["anchor"] + 2 * timedelta(hours=1)
    record = dict((await query(dsn, "select * from shardclock.command_log"))[0])
    assert {name: record[name] for name in record.keys() & before.keys()} == {
        name: before[name] for name in record.keys() & before.keys()
    }
    assert (record["timer_key"], record["intent"], record["holder"]) == (key, FIRED, A)


async def test_a_cancel_by_name_while_an_occurrence_fires_cancels_the_next_one(
    dsn: str, shards: tuple[Hand, Hand], client: Hand
) -> None:
    shard, _ = shards
    key = await add_schedule(dsn)
    held = (await shard.take()).claimed
    await shard.begin()
    await shard.fire(held)
    canceling = await waits(client, client.cancel(name="beat"))

    await shard.commit()

    assert await ends(canceling) == CANCELED
    assert await pending(dsn) == []
    ended = await query(dsn, "select intent, occurrence from shardclock.command_log order by position")
    assert [tuple(row) for row in ended] == [(FIRED, 1), (CANCELED, 2)]
    assert (await intents(dsn))[(key, FIRED)] == 1


async def test_a_cancel_by_name_under_way_keeps_the_schedule_from_going_on(
    dsn: str, shards: tuple[Hand, Hand], client: Hand
) -> None:
    shard, _ = shards
    key = await add_schedule(dsn)
    held = (await shard.take()).claimed
    await client.begin()
    assert await client.cancel(name="beat") == CANCELED

    assert (await shard.fire(held)).timer_keys == frozenset()
    await client.commit()

    assert (await shard.fire(held)).timer_keys == frozenset()
    assert await pending(dsn) == []
    assert await intents(dsn) == {(key, CANCELED): 1}


async def test_a_cancel_by_key_of_an_occurrence_that_fired_leaves_the_next_one(
    dsn: str, shards: tuple[Hand, Hand], client: Hand
) -> None:
    shard, _ = shards
    key = await add_schedule(dsn)
    held = (await shard.take()).claimed
    await shard.begin()
    await shard.fire(held)
    canceling = await waits(client, client.cancel(timer_key=key))
    await shard.commit()

    assert await ends(canceling) == FIRED
    assert len(await pending(dsn)) == 1


async def test_what_a_schedule_missed_is_recorded_with_its_count(dsn: str, shards: tuple[Hand, Hand]) -> None:
    shard, _ = shards
    key = await add_schedule(
        dsn, "R/PT10S", due="now() - interval '95 seconds'", anchor="now() - interval '105 seconds'"
    )

    await shard.fire((await shard.take()).claimed)

    rows = await query(dsn, "select intent, occurrence, detail from shardclock.command_log order by position")
    assert [tuple(row) for row in rows] == [(FIRED, 1, None), (SKIPPED, 2, '{"count": 9, "policy": "fire_once"}')]
    assert await intents(dsn) == {(key, FIRED): 1, (key, SKIPPED): 1}
    assert await value(dsn, "select occurrence from shardclock.timers") == 11


async def test_a_schedule_s_last_occurrence_is_followed_by_none(dsn: str, shards: tuple[Hand, Hand]) -> None:
    shard, _ = shards
    assert shard.now
    await add_schedule(dsn, "R3/PT1H", repetitions="3")
    for _ in range(5):
        await shard.fire((await shard.take()).claimed)
        later(shard, 3600)

    assert await pending(dsn) == []
    rows = await query(dsn, "select intent, occurrence from shardclock.command_log order by position")
    assert [tuple(row) for row in rows] == [(FIRED, 1), (FIRED, 2), (FIRED, 3)]


# Batches


async def test_a_batch_sent_again_fires_nothing_twice_and_makes_no_second_next_occurrence(
    dsn: str, shards: tuple[Hand, Hand]
) -> None:
    shard, _ = shards
    keys = await add_timers(dsn, 5)
    keys.append(await add_schedule(dsn))
    held = (await shard.take()).claimed

    first = await shard.fire(held)
    again = await shard.fire(held)
    twice_in_one = await shard.fire([*held, *held])

    assert first.timer_keys == set(keys)
    assert again.timer_keys == twice_in_one.timer_keys == frozenset()
    assert await intents(dsn) == dict.fromkeys([(key, FIRED) for key in keys], 1)
    assert len(await pending(dsn)) == 1


async def test_a_schedule_named_twice_in_one_batch_never_goes_on_twice(dsn: str, shards: tuple[Hand, Hand]) -> None:
    shard, _ = shards
    key = await add_schedule(dsn)
    (held,) = (await shard.take()).claimed

    with pytest.raises(StatementRefused, match="timers_by_name"):
        await shard.fire([held, held])

    assert await pending(dsn) == [key]
    assert await intents(dsn) == {}


async def test_in_a_mixed_batch_each_timer_has_its_own_fate(dsn: str, shards: tuple[Hand, Hand], client: Hand) -> None:
    shard, other = shards
    plain, canceled, moved, taken_over, early = await add_timers(dsn, 5)
    await query(dsn, "update shardclock.timers set due_date = now() + interval '1 second' where timer_key = $1", early)
    repeat = await add_schedule(dsn)
    last = await add_schedule(dsn, "R1/PT1H", name="'last'", repetitions="1")
    held = (await shard.take()).claimed
    assert len(held) == 7
    await client.cancel(timer_key=canceled)
    await client.reschedule(timer_key=moved, delay="PT1H")
    await query(dsn, "update shardclock.timers set claimed_by = $1 where timer_key = $2", other.holder, taken_over)

    fired = await shard.fire(held)

    assert fired.timer_keys == {plain, repeat, last}
    ended = {(plain, FIRED): 1, (canceled, CANCELED): 1, (moved, MOVED): 1, (repeat, FIRED): 1, (last, FIRED): 1}
    assert await intents(dsn) == ended
    left = await pending(dsn)
    assert {moved, taken_over, early} < set(left)
    assert len(left) == 4, "and the repeat's next occurrence"


async def test_an_occurrence_that_is_not_the_row_s_is_fenced(dsn: str, shards: tuple[Hand, Hand]) -> None:
    shard, _ = shards
    await add_schedule(dsn)
    (held,) = (await shard.take()).claimed

    assert (await shard.fire([replace(held, occurrence=2)])).timer_keys == frozenset()
    assert len((await shard.fire([held])).timer_keys) == 1


async def test_records_of_one_batch_stand_in_the_order_of_due_dates(dsn: str, shards: tuple[Hand, Hand]) -> None:
    shard, _ = shards
    keys = await add_timers(dsn, 50, "now() - i * interval '1 second'")
    held = (await shard.take()).claimed
    random.Random(1).shuffle(held)

    await shard.fire(held)

    rows = await query(dsn, "select timer_key from shardclock.command_log order by xid, position")
    assert [row["timer_key"] for row in rows] == keys[::-1]


# Reschedule


async def test_a_moved_timer_is_fenced_from_whoever_held_it(dsn: str, shards: tuple[Hand, Hand], client: Hand) -> None:
    old, new = shards
    (key,) = await add_timers(dsn, 1)
    held = (await old.take()).claimed
    assert await client.reschedule(timer_key=key, delay="PT1M") == MOVED
    assert (await old.fire(held)).timer_keys == frozenset()

    later(new, 59)
    again = (await new.take()).claimed
    later(old, 62)
    assert (await old.fire(held)).timer_keys == frozenset(), "due by now, but another's"
    later(new, 2)

    assert (await new.fire(again)).timer_keys == {key}
    assert await intents(dsn) == {(key, MOVED): 1, (key, FIRED): 1}


async def test_a_holder_that_took_a_moved_timer_again_fires_it_no_earlier_than_its_new_due_date(
    dsn: str, shards: tuple[Hand, Hand], client: Hand
) -> None:
    shard, _ = shards
    assert shard.now
    (key,) = await add_timers(dsn, 1)
    stale = (await shard.take()).claimed
    await client.reschedule(timer_key=key, due_date=shard.now + timedelta(seconds=1))
    assert [timer.timer_key for timer in (await shard.take()).claimed] == [key]

    assert (await shard.fire(stale)).timer_keys == frozenset()
    later(shard, 1)

    assert (await shard.fire(stale)).timer_keys == {key}
    assert (await shard.fire((await shard.take()).claimed)).timer_keys == frozenset()


async def test_a_fire_goes_around_a_timer_whose_move_is_under_way(
    dsn: str, shards: tuple[Hand, Hand], client: Hand
) -> None:
    shard, _ = shards
    (key,) = await add_timers(dsn, 1)
    held = (await shard.take()).claimed
    await client.begin()
    await client.reschedule(timer_key=key, delay="PT1H")

    assert (await shard.fire(held)).timer_keys == frozenset()
    await client.commit()
    assert (await shard.fire(held)).timer_keys == frozenset()
    assert await intents(dsn) == {(key, MOVED): 1}


async def test_a_move_by_key_that_waits_for_a_fire_is_told_that_it_fired(
    dsn: str, shards: tuple[Hand, Hand], client: Hand
) -> None:
    shard, _ = shards
    (key,) = await add_timers(dsn, 1)
    held = (await shard.take()).claimed
    await shard.begin()
    await shard.fire(held)
    moving = await waits(client, client.reschedule(timer_key=key, delay="PT1H"))
    await shard.commit()

    assert await ends(moving) == FIRED
    assert await intents(dsn) == {(key, FIRED): 1}


async def test_a_move_by_name_while_an_occurrence_fires_moves_the_next_one(
    dsn: str, shards: tuple[Hand, Hand], client: Hand
) -> None:
    shard, _ = shards
    due = datetime(2040, 1, 1, tzinfo=UTC)
    key = await add_schedule(dsn)
    held = (await shard.take()).claimed
    await shard.begin()
    await shard.fire(held)
    moving = await waits(client, client.reschedule(name="beat", due_date=due))
    await shard.commit()

    assert await ends(moving) == MOVED
    rows = await query(dsn, "select timer_key, occurrence, due_date from shardclock.timers")
    assert [(row["occurrence"], row["due_date"]) for row in rows] == [(2, due)]
    assert await intents(dsn) == {(key, FIRED): 1, (rows[0]["timer_key"], MOVED): 1}


async def test_a_claim_that_saw_the_old_due_date_does_not_fire_a_timer_that_was_moved_meanwhile(
    dsn: str, shards: tuple[Hand, Hand], client: Hand
) -> None:
    shard, _ = shards
    (key,) = await add_timers(dsn, 1)
    await client.begin()
    await client.reschedule(timer_key=key, delay="PT1H")

    assert (await shard.take(fuse=True)).fired == 0
    await client.commit()

    assert (await shard.take(fuse=True)).fired == 0
    assert await intents(dsn) == {(key, MOVED): 1}


async def test_a_cancel_that_waits_for_a_move_cancels_what_was_moved(
    dsn: str, shards: tuple[Hand, Hand], client: Hand
) -> None:
    mover, _ = shards
    (key,) = await add_timers(dsn, 1)
    await mover.begin()
    await mover.reschedule(timer_key=key, delay="PT1H")
    canceling = await waits(client, client.cancel(timer_key=key))
    await mover.commit()

    assert await ends(canceling) == CANCELED
    assert await pending(dsn) == []


# All of it at once


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
async def test_any_interleaving_leaves_every_timer_pending_or_ended_exactly_once(dsn: str, seed: int) -> None:
    async with AsyncExitStack() as stack:
        game = Game(dsn, random.Random(seed))
        await game.sit_down(stack)
        for _ in range(50):
            await game.deal()
            for _ in range(25):
                await game.step()
            await game.finish()
            await game.check()

    assert game.outcomes.keys() >= {FIRED, CANCELED, MOVED}
    assert game.waited > 20, "some had to wait for others, or nothing was proved"


class Game:
    """Let three shards and three clients do what they may to a few timers, one statement at a time, in any order."""

    def __init__(self, dsn: str, chance: random.Random) -> None:
        self._dsn = dsn
        self._chance = chance
        self._busy: dict[Hand, asyncio.Task[Any]] = {}
        self._memory: dict[Hand, dict[int, ClaimedTimer]] = {}
        self._in_transaction: set[Hand] = set()
        self._stopping: set[Hand] = set()
        self.outcomes: dict[str, int] = {}
        self.waited = 0

    async def sit_down(self, stack: AsyncExitStack) -> None:
        """Connect the players, and one who watches who waits for whom."""
        self._watch: asyncpg.Connection = await asyncpg.connect(self._dsn)
        stack.push_async_callback(self._watch.close)
        self._now: datetime = await self._watch.fetchval("select now()")
        self._shards = [Hand(self._dsn, holder=number) for number in (1, 2, 3)]
        self._clients = [Hand(self._dsn, plans={}) for _ in range(3)]
        for hand in [*self._shards, *self._clients]:
            await stack.enter_async_context(hand)

    async def deal(self) -> None:
        """Put a few timers on the table, none of them left from before, and forget who held what."""
        await self._watch.execute("truncate shardclock.timers, shardclock.command_log, shardclock.holders")
        for shard in self._shards:
            await add_holder(self._dsn, shard.holder)
            self._memory[shard] = {}
        self._keys = await add_timers(self._dsn, 2, "now() + (i - 2) * interval '1 second'")
        self._keys.append(await add_schedule(self._dsn, "R/PT3S", anchor="now() - interval '4 seconds'"))
        self._stopped = False

    async def step(self) -> None:
        """Let one player who doesn't wait for another do one thing."""
        self._settle()
        free = [hand for hand in [*self._shards, *self._clients] if hand not in self._busy]
        if not free:
            return
        hand = self._chance.choice(free)
        self._now += timedelta(seconds=self._chance.choice([0, 0, 0, 0.5, 4]))
        # A client does one thing a transaction: two that hold a row each and want the other's would deadlock.
        if hand in self._in_transaction and (hand in self._clients or self._chance.random() < 0.6):
            await self._end(hand, commits=self._chance.random() < 0.8)
            return
        if hand not in self._in_transaction:
            await hand.begin()
            self._in_transaction.add(hand)
        move = self._shard_move if hand in self._shards else self._client_move
        task = asyncio.create_task(move(hand))
        self._busy[hand] = task
        await self._until_it_ends_or_waits(hand, task)

    async def finish(self) -> None:
        """Let all end what they are at."""
        async with asyncio.timeout(BOUND_S):
            while self._busy or self._in_transaction:
                for hand in sorted(self._in_transaction - self._busy.keys(), key=lambda it: it.pid):
                    await self._end(hand, commits=True)
                await asyncio.wait(self._busy.values(), timeout=0.01) if self._busy else None
                self._settle()

    async def check(self) -> None:
        """Hold what is in the database against the promises."""
        ended = await self._watch.fetch(
            "select timer_key, array_agg(intent order by position) as intents from shardclock.command_log"
            " where intent <> 'SKIPPED' group by 1"
        )
        left = {row["timer_key"] for row in await self._watch.fetch("select timer_key from shardclock.timers")}
        for row in ended:
            *moves, end = row["intents"]
            assert set(moves) <= {MOVED}, "nothing comes after an end, and there is one end only"
            assert (end == MOVED) == (row["timer_key"] in left)
        gone = {row["timer_key"] for row in ended if row["intents"][-1] != MOVED}
        assert set(self._keys) <= gone | left, "none is lost"
        schedule = await self._watch.fetch(
            "select occurrence, intent from shardclock.command_log where name = 'beat' and intent <> 'RESCHEDULED'"
            " order by occurrence, position"
        )
        following = await self._watch.fetch("select occurrence from shardclock.timers where name = 'beat'")
        stopped = any(row["intent"] == CANCELED for row in schedule)
        assert stopped or not self._stopped, "who cancels a schedule by its name stops it, whatever else goes on"
        assert len(following) == (0 if stopped else 1), "a schedule goes on until it is cancelled, and then no more"
        occurrences = [row["occurrence"] for row in schedule]
        assert len(set(occurrences)) == len(occurrences)

    async def _end(self, hand: Hand, *, commits: bool) -> None:
        self._in_transaction.discard(hand)
        await (hand.commit() if commits else hand.rollback())
        self._stopped |= commits and hand in self._stopping
        self._stopping.discard(hand)

    def _settle(self) -> None:
        for hand, task in list(self._busy.items()):
            if task.done():
                del self._busy[hand]
                task.result()

    async def _until_it_ends_or_waits(self, hand: Hand, task: asyncio.Task[Any]) -> None:
        async with asyncio.timeout(BOUND_S):
            while not task.done():
                await asyncio.wait([task], timeout=0.004)
                blocked = "select cardinality(pg_blocking_pids($1)) > 0"
                if not task.done() and await self._watch.fetchval(blocked, hand.pid):
                    self.waited += 1
                    return
        self._settle()

    async def _shard_move(self, shard: Hand) -> None:
        shard.now = self._now
        held = self._memory[shard]
        if held and self._chance.random() < 0.5:
            # A shard's memory is never wiped here: what it fired, lost or saw moved, it will send again.
            await shard.send([firing_of(timer, self._now) for timer in held.values()])
            return
        floor_s = self._chance.choice([None, 0.0, 1.0])
        scope = self._chance.choice(SCOPES) if floor_s is None else "ahead"
        fuse, horizon_s = self._chance.random() < 0.5, self._chance.choice([0, 2])
        taken = await shard.take(scope=scope, floor_s=floor_s, fuse=fuse, horizon_s=horizon_s)
        for timer in taken.claimed:
            if self._chance.random() < 0.7:  # else it is left with what it knew before, if anything
                held[timer.timer_key] = timer

    async def _client_move(self, client: Hand) -> None:
        by_name = self._chance.random() < 0.4
        which: dict[str, Any] = {"name": "beat"} if by_name else {"timer_key": self._chance.choice(self._keys)}
        if self._chance.random() < 0.5:
            outcome = await client.cancel(**which)
            if by_name:
                self._stopping.add(client)
        else:
            due_date = self._now + timedelta(seconds=self._chance.choice([-1, 2]))
            outcome = await client.reschedule(**which, due_date=due_date)
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
