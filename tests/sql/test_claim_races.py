"""Prove that a claim belongs to one holder until its end: leases, zombies, takeovers, two shards on the same slots."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shardclock_server.sql.claims.claim import Scope, still_leased
from shardclock_server.sql.cluster.holders import end_holders
from shardclock_server.timers.model import ClaimedTimer
from tests.support.factories import (
    BOUND_S,
    HolderClient,
    add_holder,
    add_timers,
    intents,
    later,
    pending_keys,
    query,
    value,
)

FIRED = "TRIGGERED"
SCOPES: tuple[Scope, ...] = ("own", "newest", "sweep", "outage")


# Leases, zombies, takeover


async def test_no_other_shard_takes_a_leased_timer_until_its_lease_ends(
    dsn: str, shards: tuple[HolderClient, HolderClient]
) -> None:
    one, two = shards
    (key,) = await add_timers(dsn, 1, "now() + interval '1 second'")
    assert [timer.timer_key for timer in (await one.take()).claimed] == [key]

    later(two, 9.9)
    assert (await two.take()).claimed == []
    assert (await two.take(fire_overdue=True)).fired == 0
    assert (await two.take(scope="sweep", horizon_s=-3)).claimed == []

    later(two, 0.1)
    assert [timer.timer_key for timer in (await two.take()).claimed] == [key]


async def suspend(dsn: str, holder: int, *, until_heard: bool = True) -> None:
    text = "update shardclock.holders set suspended_at = case when $2 then now() end where holder = $1"
    await query(dsn, text, holder, until_heard)


@pytest.mark.parametrize("how", ["lease_ran_out", "holder_ended", "holder_suspended"])
async def test_a_zombie_does_not_fire_a_timer_that_was_taken_over(
    dsn: str, shards: tuple[HolderClient, HolderClient], how: str
) -> None:
    zombie, replacement = shards
    (key,) = await add_timers(dsn, 1)
    held = (await zombie.take()).claimed
    if how == "holder_ended":
        await end_holders(replacement.session, [zombie.holder], why="silent")
    elif how == "holder_suspended":
        await suspend(dsn, zombie.holder)
    else:
        later(replacement, 10)
    inherited = (await replacement.take()).claimed
    assert [timer.timer_key for timer in inherited] == [key]

    assert (await zombie.fire(held)).timer_keys == frozenset()
    assert await still_leased(zombie.session, zombie.holder, [key]) == []
    assert (await replacement.fire(inherited)).timer_keys == {key}
    assert (await zombie.fire(held)).timer_keys == frozenset()

    assert await intents(dsn) == {(key, FIRED): 1}
    assert await value(dsn, "select holder from shardclock.command_log") == replacement.holder


@pytest.mark.parametrize("scope", SCOPES)
async def test_the_claims_of_a_suspended_holder_are_free_until_it_is_resumed(
    dsn: str, shards: tuple[HolderClient, HolderClient], scope: Scope
) -> None:
    silent, other = shards
    # All timers are in one slot. A scan over tenants takes more timers of a slot than a scan over slots.
    await add_timers(dsn, 4, "now() - interval '1 minute'", tenant_id="'acme'", timer_key="840 * i")
    scan: dict[str, Any] = {"scope": scope, "horizon_s": -10 if scope == "outage" else 2.0}
    scan |= {"floor_s": 10.0} if scope == "outage" else {}
    assert len((await silent.take(**scan)).claimed) == 4

    await suspend(dsn, silent.holder)
    await suspend(dsn, silent.holder, until_heard=False)
    assert (await other.take(**scan)).claimed == []

    await suspend(dsn, silent.holder)
    assert (await silent.take(**scan)).claimed == [], "a holder doesn't take from itself"
    assert len((await other.take(**scan)).claimed) == 4
    await suspend(dsn, silent.holder, until_heard=False)
    assert (await silent.take(**scan)).claimed == [], "taken timers stay taken"


async def test_a_suspended_shard_that_wakes_fires_only_timers_that_no_other_shard_has_taken(
    dsn: str, shards: tuple[HolderClient, HolderClient]
) -> None:
    awake, replacement = shards
    keys = await add_timers(dsn, 10)
    held = (await awake.take()).claimed
    await suspend(dsn, awake.holder)
    taken = {timer.timer_key for timer in (await replacement.take(batch=4)).claimed}
    assert 0 < len(taken) < 10

    assert (await awake.fire(held)).timer_keys == set(keys) - taken
    assert (await replacement.take()).claimed == []
    assert await pending_keys(dsn) == sorted(taken)


@pytest.mark.parametrize("scope", SCOPES)
async def test_a_claim_that_ends_too_far_ahead_is_free_because_the_clock_was_set_back(
    dsn: str, shards: tuple[HolderClient, HolderClient], scope: Scope
) -> None:
    ahead, replacement = shards
    # All timers are in one slot. A scan over tenants takes more timers of a slot than a scan over slots.
    await add_timers(dsn, 4, "now() - interval '2 hours'", tenant_id="'acme'", timer_key="840 * i")
    scan: dict[str, Any] = {"scope": scope, "horizon_s": -10 if scope == "outage" else 2.0}
    scan |= {"floor_s": 10.0} if scope == "outage" else {}
    assert len((await ahead.take(**scan)).claimed) == 4

    later(replacement, -10)
    assert (await replacement.take(**scan)).claimed == [], "two leases ahead: another's may be longer"
    later(replacement, -3600)
    assert len((await replacement.take(**scan)).claimed) == 4


async def test_a_zombie_that_fires_while_the_takeover_commits_is_fenced(
    dsn: str, shards: tuple[HolderClient, HolderClient]
) -> None:
    zombie, replacement = shards
    (key,) = await add_timers(dsn, 1)
    held = (await zombie.take()).claimed
    later(replacement, 10)
    await replacement.begin()
    inherited = (await replacement.take()).claimed

    assert (await zombie.fire(held)).timer_keys == frozenset(), "it skips a locked row"
    await replacement.commit()

    assert (await zombie.fire(held)).timer_keys == frozenset()
    assert (await replacement.fire(inherited)).timer_keys == {key}
    assert await intents(dsn) == {(key, FIRED): 1}


async def test_a_takeover_skips_a_timer_that_its_zombie_is_firing(
    dsn: str, shards: tuple[HolderClient, HolderClient]
) -> None:
    zombie, replacement = shards
    (key,) = await add_timers(dsn, 1)
    held = (await zombie.take()).claimed
    later(replacement, 10)
    await zombie.begin()
    assert (await zombie.fire(held)).timer_keys == {key}

    assert (await replacement.take()).claimed == []
    assert (await replacement.take(fire_overdue=True)).fired == 0
    await zombie.commit()

    assert (await replacement.take(fire_overdue=True)).fired == 0
    assert await intents(dsn) == {(key, FIRED): 1}


async def test_a_late_firing_succeeds_if_no_other_shard_took_the_lease(
    dsn: str, shards: tuple[HolderClient, HolderClient]
) -> None:
    late, other = shards
    (key,) = await add_timers(dsn, 1)
    held = (await late.take()).claimed
    later(late, 60)

    assert (await late.fire(held)).timer_keys == {key}
    later(other, 60)
    assert (await other.take(fire_overdue=True)).fired == 0


async def test_an_ended_holder_claims_no_more_timers(dsn: str, shards: tuple[HolderClient, HolderClient]) -> None:
    ended, other = shards
    await add_timers(dsn, 1)
    await end_holders(other.session, [ended.holder], why="silent")

    for scope in SCOPES:
        taken = await ended.take(scope=scope, fire_overdue=True)
        assert (taken.fired, taken.claimed) == (0, [])


async def test_a_holder_without_slots_claims_only_the_timers_of_its_sweeps(dsn: str) -> None:
    await add_holder(dsn, 1, None, None)
    await add_timers(dsn, 1, "now() - interval '1 minute'")
    async with HolderClient(dsn, holder=1) as spare:
        assert (await spare.take(fire_overdue=True)).fired == 0
        assert (await spare.take(scope="sweep", horizon_s=-120, fire_overdue=True)).fired == 0
        assert (await spare.take(scope="sweep", horizon_s=-3, fire_overdue=True)).fired == 1


# Two shards that have the same slots


@pytest.mark.parametrize("fire_overdue", [False, True], ids=["claims", "fused"])
async def test_two_shards_with_the_same_slots_fire_each_timer_once(
    dsn: str, shards: tuple[HolderClient, HolderClient], fire_overdue: bool
) -> None:
    keys = await add_timers(dsn, 2_000)

    async def work(shard: HolderClient) -> list[int]:
        held: list[ClaimedTimer] = []
        seen = []
        # The other shard's scan may briefly lock a row that is already claimed; then the next scan fires this row.
        while len(await intents(dsn)) < len(keys):
            taken = await shard.take(fire_overdue=fire_overdue, batch=840)
            seen += [timer.timer_key for timer in taken.claimed]
            held += taken.claimed
            fired = await shard.fire(held)
            held = [timer for timer in held if timer.timer_key not in fired.timer_keys]
        return seen

    async with asyncio.timeout(BOUND_S):
        by_one, by_two = await asyncio.gather(*(work(shard) for shard in shards))

    assert await intents(dsn) == dict.fromkeys([(key, FIRED) for key in keys], 1)
    assert await pending_keys(dsn) == []
    assert set(by_one) & set(by_two) == set()
    assert sorted(by_one + by_two) == ([] if fire_overdue else keys)


async def test_a_shard_skips_rows_that_another_shard_has_locked(
    dsn: str, shards: tuple[HolderClient, HolderClient]
) -> None:
    one, two = shards
    keys = await add_timers(dsn, 20)
    await one.begin()
    mine = [timer.timer_key for timer in (await one.take(batch=840)).claimed]

    theirs = [timer.timer_key for timer in (await two.take()).claimed]
    await one.commit()

    assert sorted(mine + theirs) == keys
    assert len(mine) == 20, "one of each slot"


@pytest.mark.parametrize("count", [1, 2, 7, 11, 840])
async def test_the_shards_have_all_slots_and_no_slot_twice(dsn: str, count: int) -> None:
    keys = await add_timers(dsn, 840)
    await add_holder(dsn, 1)
    async with HolderClient(dsn, holder=1) as shard:
        taken = []
        for number in range(count):
            await shard.value("update shardclock.holders set part = $1, part_count = $2", number, count)
            mine = [timer.timer_key for timer in (await shard.take()).claimed]
            assert {key % 840 % count for key in mine} == {number}
            taken += mine

    assert sorted(taken) == keys


async def test_a_scan_for_the_newest_timers_takes_the_last_due_timers_of_each_slot(
    dsn: str, shards: tuple[HolderClient, HolderClient]
) -> None:
    shard, _ = shards
    backlog = await add_timers(dsn, 4, "now() - i * interval '1 second'", timer_key="840 * i")
    await add_timers(dsn, 4, "now() + i * interval '1 second'", timer_key="840 * (i + 4)")
    await add_timers(dsn, 4, "now() - interval '1 minute'", timer_key="840 * (i + 8) + 1")

    taken = [await shard.take(scope="newest", horizon_s=0, floor_s=10.0, batch=840) for _ in range(5)]

    assert [[timer.timer_key for timer in it.claimed] for it in taken] == [*([key] for key in backlog), []]
    assert [it.saturated for it in taken] == [True] * 4 + [False]


async def test_a_scan_for_the_newest_timers_fires_these_timers_and_skips_locked_timers(
    dsn: str, shards: tuple[HolderClient, HolderClient]
) -> None:
    shard, other = shards
    locked, free, _ = await add_timers(dsn, 3, "now() - i * interval '1 second'", timer_key="840 * i")
    await other.begin()
    await other.value("select timer_key from shardclock.timers where timer_key = $1 for update", locked)

    taken = await shard.take(scope="newest", horizon_s=0, batch=840, fire_overdue=True)

    assert (taken.fired, taken.claimed) == (1, [])
    assert await intents(dsn) == {(free, FIRED): 1}
    await other.rollback()


async def test_a_scan_ahead_skips_a_backlog(dsn: str, shards: tuple[HolderClient, HolderClient]) -> None:
    """A scan ahead fires newly due timers and leases timers due soon, which otherwise would wait for the backlog."""
    shard, _ = shards
    await add_timers(dsn, 100, "now() - interval '5 seconds'")
    since, soon = await add_timers(dsn, 2, "now() + (i * 2 - 3) * interval '1 second'")

    taken = await shard.take(scope="ahead", floor_s=2.5, batch=50, fire_overdue=True)

    assert (taken.fired, [timer.timer_key for timer in taken.claimed]) == (1, [soon])
    assert await intents(dsn) == {(since, FIRED): 1}
    assert (await shard.take(horizon_s=0, batch=50, fire_overdue=True)).fired == 50
