"""Prove that a change by name waits for another change of the name, and then applies to the timer with the name."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from shardclock_server.sql.clients.outcomes import Scheduled
from shardclock_server.sql.clients.scheduling import ScheduleBatch
from shardclock_server.sql.clients.verbs import TimerRef, cancel_timer
from shardclock_server.sql.session import StoreUnavailable
from tests.support.factories import (
    HolderClient,
    add_holder,
    ends,
    held_beat,
    intents,
    pending_rows,
    recorded,
    value,
    waits,
)
from tests.support.scheduling import Ask, by_sql, timer
from tests.support.sql_client import schedule

pytestmark = pytest.mark.each_version


@pytest.mark.parametrize(("policy", "outcome"), [("ignore", "unchanged"), ("replace", "replaced")])
async def test_the_second_client_that_schedules_a_name_waits_for_the_first(
    client: HolderClient, other: HolderClient, ask: Ask, policy: str, outcome: str
) -> None:
    await other.begin()
    first, _ = await ask(other, on_conflict=policy)
    sql_client = await waits(client, ask(client, on_conflict=policy))

    await other.commit()

    second, said = await ends(sql_client)
    assert said == outcome
    assert (second == first) is (outcome == "unchanged")
    assert [row["timer_key"] for row in await pending_rows(client.dsn)] == [second]


@pytest.mark.parametrize("policy", ["ignore", "replace", "refuse"])
async def test_a_client_that_rolls_back_leaves_the_name_to_the_second(
    client: HolderClient, other: HolderClient, ask: Ask, policy: str
) -> None:
    await other.begin()
    await ask(other, on_conflict=policy)
    sql_client = await waits(client, ask(client, on_conflict=policy))

    await other.rollback()

    key, said = await ends(sql_client)
    assert said == "created"
    assert [row["timer_key"] for row in await pending_rows(client.dsn)] == [key]


async def test_if_two_clients_replace_one_timer_each_client_replaces_the_newest_timer(
    client: HolderClient, other: HolderClient, ask: Ask
) -> None:
    old = await schedule(client, name="n")
    await other.begin()
    first, _ = await ask(other, on_conflict="replace")
    sql_client = await waits(client, ask(client, on_conflict="replace"))

    await other.commit()

    second, said = await ends(sql_client)
    assert said == "replaced"
    assert [row["timer_key"] for row in await pending_rows(client.dsn)] == [second]
    assert sorted(await recorded(client.dsn)) == [(old, "CANCELED"), (first, "CANCELED")]


@pytest.mark.parametrize(("policy", "outcome"), [("ignore", "unchanged"), ("replace", "replaced")])
async def test_a_client_that_waits_for_the_firing_of_a_schedule_finds_the_next_occurrence(
    client: HolderClient, shard_ahead: HolderClient, ask: Ask, policy: str, outcome: str
) -> None:
    (held,) = await held_beat(shard_ahead, name="'n'")
    await shard_ahead.begin()
    assert (await shard_ahead.fire([held])).timer_keys == {held.timer_key}
    sql_client = await waits(client, ask(client, payload={"v": 2}, on_conflict=policy))

    await shard_ahead.commit()

    key, said = await ends(sql_client)
    (row,) = await pending_rows(client.dsn)
    assert (row["timer_key"], said) == (key, outcome)
    ended = await recorded(client.dsn)
    assert ended[0] == (held.timer_key, "TRIGGERED")
    assert [intent for _, intent in ended[1:]] == ([] if policy == "ignore" else ["CANCELED"])
    assert (row["schedule"], row["occurrence"]) == (("R/PT1H", 2) if policy == "ignore" else (None, 1))


@pytest.mark.parametrize(("policy", "outcome"), [("ignore", "unchanged"), ("replace", "replaced")])
async def test_a_firing_that_is_rolled_back_leaves_the_occurrence_to_the_client_that_schedules(
    client: HolderClient, shard_ahead: HolderClient, ask: Ask, policy: str, outcome: str
) -> None:
    (held,) = await held_beat(shard_ahead, name="'n'")
    await shard_ahead.begin()
    await shard_ahead.fire([held])
    sql_client = await waits(client, ask(client, payload={"v": 2}, on_conflict=policy))

    await shard_ahead.rollback()

    key, said = await ends(sql_client)
    assert said == outcome
    assert [row["timer_key"] for row in await pending_rows(client.dsn)] == [key]
    assert await recorded(client.dsn) == ([] if policy == "ignore" else [(held.timer_key, "CANCELED")])


async def test_a_shard_skips_a_timer_that_is_being_replaced_and_never_fires_it(
    client: HolderClient, shard_ahead: HolderClient, ask: Ask
) -> None:
    (held,) = await held_beat(shard_ahead, name="'n'")
    await client.begin()
    new, _ = await ask(client, delay="P1D", on_conflict="replace")

    assert (await shard_ahead.fire([held])).timer_keys == frozenset()
    await client.commit()

    assert (await shard_ahead.fire([held])).timer_keys == frozenset()
    assert [row["timer_key"] for row in await pending_rows(client.dsn)] == [new]
    assert await recorded(client.dsn) == [(held.timer_key, "CANCELED")]


@pytest.mark.parametrize("policy", ["ignore", "replace"])
async def test_a_timer_that_fires_meanwhile_leaves_its_name_free(
    client: HolderClient, shard_ahead: HolderClient, ask: Ask, policy: str
) -> None:
    old = await schedule(client, delay="PT1M", name="n")
    (held,) = (await shard_ahead.take()).claimed
    await shard_ahead.begin()
    await shard_ahead.fire([held])
    sql_client = await waits(client, ask(client, on_conflict=policy))

    await shard_ahead.commit()

    key, said = await ends(sql_client)
    assert said == "created"
    assert [row["timer_key"] for row in await pending_rows(client.dsn)] == [key]
    assert await recorded(client.dsn) == [(old, "TRIGGERED")]


@pytest.mark.parametrize("policy", ["ignore", "replace"])
async def test_a_timer_that_is_cancelled_meanwhile_leaves_its_name_free(
    client: HolderClient, other: HolderClient, ask: Ask, policy: str
) -> None:
    old = await schedule(client, name="n")
    await other.begin()
    await cancel_timer(other.session, TimerRef(name="n"))
    sql_client = await waits(client, ask(client, on_conflict=policy))

    await other.commit()

    key, said = await ends(sql_client)
    assert said == "created"
    assert await recorded(client.dsn) == [(old, "CANCELED")]
    assert [row["timer_key"] for row in await pending_rows(client.dsn)] == [key]


async def test_a_timer_locked_by_its_client_before_its_cancel_leaves_its_name_free(
    client: HolderClient, other: HolderClient, ask: Ask
) -> None:
    old = await schedule(client, name="n")
    await other.begin()
    await other.value("select timer_key from shardclock.timers for update")
    sql_client = await waits(client, ask(client, on_conflict="replace"))
    await cancel_timer(other.session, TimerRef(name="n"))

    await other.commit()

    key, said = await ends(sql_client)
    assert said == "created"
    assert await recorded(client.dsn) == [(old, "CANCELED")]
    assert [row["timer_key"] for row in await pending_rows(client.dsn)] == [key]


@pytest.mark.parametrize("policy", ["ignore", "replace"])
async def test_a_client_with_an_old_snapshot_must_try_again(
    client: HolderClient, other: HolderClient, policy: str
) -> None:
    await client.begin()
    await client.value("set transaction isolation level repeatable read")
    await client.value("select count(*) from shardclock.timers")
    key = await schedule(other, name="n")

    with pytest.raises(StoreUnavailable, match="could not serialize access"):
        await by_sql(client, on_conflict=policy)

    assert [row["timer_key"] for row in await pending_rows(client.dsn)] == [key]


@pytest.mark.parametrize("seed", range(3))
async def test_concurrent_calls_for_two_names_end_each_timer_once_and_never_share_a_name(
    each_dsn: str, seed: int
) -> None:
    dice = random.Random(seed)
    said: list[tuple[int, str]] = []

    async def schedules(hand: HolderClient) -> None:
        for _ in range(15):
            names = dice.sample(["a", "b"], k=dice.choice([1, 2]))
            asked = [
                timer(
                    name=name,
                    on_conflict=dice.choice(["ignore", "replace", "replace"]),
                    **dice.choice([{"delay": "PT0S"}, {"delay": "PT1H"}, {"schedule": "R/PT1S"}]),
                )
                for name in names
            ]
            batch = ScheduleBatch(asked)
            while True:
                try:
                    outcomes = await batch.send(hand.session)
                    break
                except StoreUnavailable:  # a deadlock: one of the two clients must try again
                    continue
            said.extend((it.timer_key, it.outcome) for it in outcomes if isinstance(it, Scheduled))

    async def fires(hand: HolderClient, done: asyncio.Event) -> None:
        while not done.is_set():
            hand.now = await hand.value("select now() + interval '3 seconds'")
            await hand.fire((await hand.take(fire_overdue=dice.random() < 0.5)).claimed)

    await add_holder(each_dsn, 1)
    async with (
        HolderClient(each_dsn, holder=1) as shard,
        HolderClient(each_dsn) as one,
        HolderClient(each_dsn) as two,
        HolderClient(each_dsn) as three,
    ):
        done = asyncio.Event()
        firing = asyncio.create_task(fires(shard, done))
        await asyncio.gather(*(schedules(hand) for hand in (one, two, three)))
        done.set()
        await firing

    left = [row["timer_key"] for row in await pending_rows(each_dsn)]
    names = [row["name"] for row in await pending_rows(each_dsn)]
    ended = await intents(each_dsn)
    assert sorted(set(names)) == sorted(names)
    assert set(ended.values()) <= {1}
    ends_of = Counter(key for key, intent in ended if intent in ("TRIGGERED", "CANCELED"))
    assert set(ends_of.values()) <= {1}
    assert not set(left) & set(ends_of)
    assert {key for key, _ in said} <= set(left) | set(ends_of)
    new = [key for key, outcome in said if outcome != "unchanged"]
    assert len(set(new)) == len(new), "each was made once"
    replaced = await value(each_dsn, "select count(*) from shardclock.command_log where detail ? 'replaced_by'")
    assert replaced == sum(outcome == "replaced" for _, outcome in said) > 0
    assert sum(intent == "CANCELED" for _, intent in ended) == replaced
