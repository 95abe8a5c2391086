"""Prove that a cancel during a firing either prevents the firing or answers that the timer has fired."""

from __future__ import annotations

import pytest

from shardclock_server.sql.claims.claim import still_leased
from tests.support.factories import HolderClient, add_schedule, add_timers, ends, intents, pending_keys, query, waits

FIRED = "TRIGGERED"
CANCELED = "CANCELED"


async def test_a_cancel_that_comes_first_stops_the_firing(
    dsn: str, shards: tuple[HolderClient, HolderClient], client: HolderClient
) -> None:
    shard, _ = shards
    (key,) = await add_timers(dsn, 1)
    held = (await shard.take()).claimed

    assert await client.cancel(timer_key=key) == CANCELED
    assert (await shard.fire(held)).timer_keys == frozenset()

    assert await intents(dsn) == {(key, CANCELED): 1}


async def test_a_cancel_that_comes_too_late_reports_that_the_timer_fired(
    dsn: str, shards: tuple[HolderClient, HolderClient], client: HolderClient
) -> None:
    shard, _ = shards
    (key,) = await add_timers(dsn, 1, name="'n'")
    await shard.fire((await shard.take()).claimed)

    assert await client.cancel(timer_key=key) == FIRED
    assert await client.cancel(name="n") == FIRED

    assert await intents(dsn) == {(key, FIRED): 1}


@pytest.mark.parametrize("fire_overdue", [False, True], ids=["leased", "fused"])
@pytest.mark.parametrize("by_name", [False, True], ids=["by_key", "by_name"])
async def test_a_cancel_waits_for_a_concurrent_firing_and_returns_the_timers_end(
    dsn: str, shards: tuple[HolderClient, HolderClient], client: HolderClient, *, fire_overdue: bool, by_name: bool
) -> None:
    shard, _ = shards
    for commits in (False, True):
        (key,) = await add_timers(dsn, 1, name="'n'")
        await shard.begin()
        await shard.fire((await shard.take(fire_overdue=fire_overdue)).claimed)
        canceling = await waits(client, client.cancel(**({"name": "n"} if by_name else {"timer_key": key})))

        await (shard.commit() if commits else shard.rollback())

        assert await ends(canceling) == (FIRED if commits else CANCELED)
        assert (await intents(dsn))[(key, FIRED if commits else CANCELED)] == 1
        assert await pending_keys(dsn) == []


async def test_a_firing_skips_a_timer_with_an_uncommitted_cancel(
    dsn: str, shards: tuple[HolderClient, HolderClient], client: HolderClient
) -> None:
    shard, _ = shards
    first, second, third = await add_timers(dsn, 3)
    held = (await shard.take()).claimed
    await client.begin()
    await client.cancel(timer_key=second)

    assert (await shard.fire(held)).timer_keys == {first, third}, "no other timer waits for the client"
    assert [held.timer.timer_key for held in await still_leased(shard.session, shard.holder, [second])] == [second]
    await client.rollback()

    assert (await shard.fire(held)).timer_keys == {second}, "a cancel that was rolled back has no effect"
    assert await intents(dsn) == {(first, FIRED): 1, (second, FIRED): 1, (third, FIRED): 1}


async def test_the_name_of_a_cancelled_timer_is_free_at_once(
    dsn: str, shards: tuple[HolderClient, HolderClient], client: HolderClient
) -> None:
    shard, _ = shards
    (old,) = await add_timers(dsn, 1, name="'n'")
    held = (await shard.take()).claimed
    await client.cancel(name="n")
    (new,) = await add_timers(dsn, 1, name="'n'")

    assert (await shard.fire(held)).timer_keys == frozenset()
    assert await client.cancel(name="n") == CANCELED
    assert await intents(dsn) == {(old, CANCELED): 1, (new, CANCELED): 1}


async def test_a_cancel_by_name_during_the_firing_of_an_occurrence_cancels_the_next_occurrence(
    dsn: str, shards: tuple[HolderClient, HolderClient], client: HolderClient
) -> None:
    shard, _ = shards
    key = await add_schedule(dsn)
    held = (await shard.take()).claimed
    await shard.begin()
    await shard.fire(held)
    canceling = await waits(client, client.cancel(name="beat"))

    await shard.commit()

    assert await ends(canceling) == CANCELED
    assert await pending_keys(dsn) == []
    ended = await query(dsn, "select intent, occurrence from shardclock.command_log order by position")
    assert [tuple(row) for row in ended] == [(FIRED, 1), (CANCELED, 2)]
    assert (await intents(dsn))[(key, FIRED)] == 1


async def test_a_concurrent_cancel_by_name_ends_the_schedule(
    dsn: str, shards: tuple[HolderClient, HolderClient], client: HolderClient
) -> None:
    shard, _ = shards
    key = await add_schedule(dsn)
    held = (await shard.take()).claimed
    await client.begin()
    assert await client.cancel(name="beat") == CANCELED

    assert (await shard.fire(held)).timer_keys == frozenset()
    await client.commit()

    assert (await shard.fire(held)).timer_keys == frozenset()
    assert await pending_keys(dsn) == []
    assert await intents(dsn) == {(key, CANCELED): 1}


async def test_a_cancel_by_key_of_a_fired_occurrence_does_not_cancel_the_next_occurrence(
    dsn: str, shards: tuple[HolderClient, HolderClient], client: HolderClient
) -> None:
    shard, _ = shards
    key = await add_schedule(dsn)
    held = (await shard.take()).claimed
    await shard.begin()
    await shard.fire(held)
    canceling = await waits(client, client.cancel(timer_key=key))
    await shard.commit()

    assert await ends(canceling) == FIRED
    assert len(await pending_keys(dsn)) == 1


async def test_a_cancel_that_waits_for_a_move_cancels_the_moved_timer(dsn: str, client: HolderClient) -> None:
    (key,) = await add_timers(dsn, 1)
    async with HolderClient(dsn) as mover:
        await mover.begin()
        await mover.reschedule(timer_key=key, delay="PT1H")
        canceling = await waits(client, client.cancel(timer_key=key))
        await mover.commit()
        assert await ends(canceling) == CANCELED

    assert await pending_keys(dsn) == []
