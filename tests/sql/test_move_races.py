"""Prove that a timer fires once, at its new due date, if a client moves the timer while a shard leases the timer."""

from __future__ import annotations

from datetime import timedelta

from tests.support.factories import HolderClient, add_timers, intents, later

FIRED = "TRIGGERED"
MOVED = "RESCHEDULED"


async def test_a_moved_timer_is_fenced_from_its_former_holder(
    dsn: str, shards: tuple[HolderClient, HolderClient], client: HolderClient
) -> None:
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


async def test_a_holder_that_claimed_a_moved_timer_again_fires_it_no_earlier_than_its_new_due_date(
    dsn: str, shards: tuple[HolderClient, HolderClient], client: HolderClient
) -> None:
    shard, _ = shards
    assert shard.now
    (key,) = await add_timers(dsn, 1)
    stale = (await shard.take()).claimed
    await client.reschedule(timer_key=key, due_date=shard.now + timedelta(seconds=1))
    held = (await shard.take()).claimed
    assert [timer.timer_key for timer in held] == [key]

    assert (await shard.fire(held)).timer_keys == frozenset()
    later(shard, 1)

    assert (await shard.fire(stale)).timer_keys == frozenset()
    assert (await shard.fire(held)).timer_keys == {key}


async def test_a_claim_that_saw_the_old_due_date_does_not_fire_a_timer_that_was_moved_meanwhile(
    dsn: str, shards: tuple[HolderClient, HolderClient], client: HolderClient
) -> None:
    shard, _ = shards
    (key,) = await add_timers(dsn, 1)
    await client.begin()
    await client.reschedule(timer_key=key, delay="PT1H")

    assert (await shard.take(fire_overdue=True)).fired == 0
    await client.commit()

    assert (await shard.take(fire_overdue=True)).fired == 0
    assert await intents(dsn) == {(key, MOVED): 1}
