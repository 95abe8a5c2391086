"""Prove that a statement takes only rows that have not changed since the statement read them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest

from shardclock_server.sql.session import Session, StoreLocked
from shardclock_server.timers.model import ClaimedTimer
from tests.support.factories import BOUND_S, HolderClient, add_holder, add_timers, ends, intents, query, value
from tests.support.roles import OPERATOR, SUPERUSER

A, B = 101, 102
FIRED = "TRIGGERED"
PATIENCE_S = 3.0  # thirty times as long as a shard waits for a lock

# Blocks a statement until `gate` has a row. At this moment the statement has read all timers, and writes the first
# timer.
GATE = """
create table public.gate (open boolean);
grant select on public.gate to public;
create function public.hold_up() returns trigger language plpgsql as $$
begin
    while not exists (select from public.gate) loop
        perform pg_sleep(0.001);
    end loop;
    return coalesce(new, old);
end
$$;
create trigger hold_up before update or delete on shardclock.timers
for each row when (old.timer_key = {key}) execute function public.hold_up();
"""

Held = Sequence[ClaimedTimer]
Way = Callable[[HolderClient, Held], Awaitable[set[int]]]
Change = Callable[[HolderClient, int], Awaitable[Any]]


@pytest.fixture
async def shard(dsn: str) -> AsyncIterator[HolderClient]:
    await add_holder(dsn, A)
    await add_holder(dsn, B)
    async with HolderClient(dsn, holder=A) as one:
        yield one


@pytest.fixture
async def other(dsn: str) -> AsyncIterator[HolderClient]:
    """Yield another holder of all slots, which can also act as a client."""
    async with HolderClient(dsn, holder=B, role=OPERATOR) as two:
        yield two


async def fires_at_once(shard: HolderClient, _held: Held) -> set[int]:
    before = await fired(shard.dsn)
    await shard.take(fire_overdue=True)
    return await fired(shard.dsn) - before


async def leases(shard: HolderClient, _held: Held) -> set[int]:
    return {timer.timer_key for timer in (await shard.take()).claimed}


async def fires_leased(shard: HolderClient, held: Held) -> set[int]:
    return set((await shard.fire(held)).timer_keys)


WAYS = [fires_at_once, leases, fires_leased]


async def fired(dsn: str) -> set[int]:
    return {key for key, intent in await intents(dsn) if intent == FIRED}


async def cancels(client: HolderClient, key: int) -> None:
    assert await client.cancel(timer_key=key) == "CANCELED"


async def moves(client: HolderClient, key: int) -> None:
    assert await client.reschedule(timer_key=key, due_date=await value(client.dsn, TOMORROW)) == "RESCHEDULED"


async def pauses(client: HolderClient, key: int) -> None:
    assert await client.value("select shardclock.pause_timer(timer_key => $1)", key) == "PAUSED"


async def leases_it(other: HolderClient, key: int) -> None:
    await set_in(other, key, LEASED.format(B))


async def moves_it_and_leases_it_to_the_same_shard(other: HolderClient, key: int) -> None:
    await set_in(other, key, f"{LEASED.format(A)}, due_date = now() + interval '1 day'")


async def changes_it_and_leases_it_to_the_same_shard(other: HolderClient, key: int) -> None:
    await set_in(other, key, f"{LEASED.format(A)}, payload = '[1]'")


async def makes_it_a_schedule(other: HolderClient, key: int) -> None:
    await set_in(other, key, SCHEDULE)


async def makes_it_a_schedule_and_leases_it_to_the_same_shard(other: HolderClient, key: int) -> None:
    await set_in(other, key, f"{LEASED.format(A)}, {SCHEDULE}")


async def set_in(hand: HolderClient, key: int, columns: str) -> None:
    """Change a row as several verbs, one after the other, could change it."""
    await hand.value(f"update shardclock.timers set {columns} where timer_key = $1", key)


TOMORROW = "select now() + interval '1 day'"
LEASED = "claimed_by = {}, claimed_until = now() + interval '10 s'"
SCHEDULE = (
    "schedule = '@daily', anchor = now(), anchor_occurrence = null, repetitions = -1, name = 'daily', period_us = null"
)
CHANGES: Sequence[Change] = (
    cancels, moves, pauses, leases_it, moves_it_and_leases_it_to_the_same_shard,
    changes_it_and_leases_it_to_the_same_shard, makes_it_a_schedule,
    makes_it_a_schedule_and_leases_it_to_the_same_shard,
)  # fmt: skip


async def lease_for(shard: HolderClient, way: Way) -> Held:
    """Lease the timers that the tested statement fires."""
    return (await shard.take()).claimed if way is fires_leased else ()


async def started(dsn: str, shard: HolderClient, way: Way) -> tuple[list[int], Held, asyncio.Task[set[int]]]:
    """Make three timers; the shard reads all three, and waits before it locks the first timer."""
    keys = await add_timers(dsn, 3)
    held = await lease_for(shard, way)
    async with HolderClient(dsn, role=SUPERUSER) as hand, hand.session.connection() as connection:
        await connection.execute(GATE.format(key=keys[0]))
    task = asyncio.ensure_future(way(shard, held))
    async with asyncio.timeout(BOUND_S):
        while await value(dsn, "select wait_event from pg_stat_activity where pid = $1", shard.pid) != "PgSleep":
            assert not task.done(), "it was to wait before the first timer"
    return keys, held, task


async def open_gate(dsn: str) -> None:
    await query(dsn, "insert into public.gate values (true)")


@pytest.mark.parametrize(
    ("way", "change"),
    # A due and free schedule may be leased, like a plain timer.
    [pair for pair in itertools.product(WAYS, CHANGES) if pair != (leases, makes_it_a_schedule)],
    ids=lambda it: it.__name__,
)
async def test_a_statement_skips_a_timer_that_changed_after_it_was_read(
    dsn: str, shard: HolderClient, other: HolderClient, way: Way, change: Change
) -> None:
    (first, changed, last), _, task = await started(dsn, shard, way)
    await change(other, changed)
    as_it_is = await query(dsn, "select * from shardclock.timers where timer_key = $1", changed)

    await open_gate(dsn)

    assert await ends(task) == {first, last}
    assert await query(dsn, "select * from shardclock.timers where timer_key = $1", changed) == as_it_is
    assert changed not in await fired(dsn)


@pytest.mark.parametrize("way", [fires_at_once, leases], ids=lambda it: it.__name__)
async def test_a_resumed_holder_keeps_the_lease_that_it_took_after_the_read(
    dsn: str, shard: HolderClient, other: HolderClient, way: Way
) -> None:
    """The read still sees the holder as suspended and its claims as free, but not a claim made after the read."""
    await query(dsn, "update shardclock.holders set suspended_at = now() where holder = $1", B)
    (first, leased, last), _, task = await started(dsn, shard, way)
    await query(dsn, "update shardclock.holders set suspended_at = null where holder = $1", B)
    await leases_it(other, leased)

    await open_gate(dsn)

    assert await ends(task) == {first, last}
    assert await value(dsn, "select claimed_by from shardclock.timers where timer_key = $1", leased) == B


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_a_timer_that_was_locked_after_the_read_blocks_no_other_timer(
    dsn: str, shard: HolderClient, other: HolderClient, way: Way
) -> None:
    (first, locked, last), held, task = await started(dsn, shard, way)
    await other.begin()
    await other.value("select true from shardclock.timers where timer_key = $1 for update", locked)

    await open_gate(dsn)

    async with asyncio.timeout(PATIENCE_S):
        assert await task == {first, last}, "it reads again, and skips the locked one"
    await other.rollback()
    assert await way(shard, held) == {locked}
    assert set((await intents(dsn)).values()) <= {1}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_a_statement_that_finds_locked_rows_three_times_raises_store_locked(
    dsn: str, shard: HolderClient, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add_timers(dsn, 3)
    held, attempts = await lease_for(shard, way), []

    async def in_vain(_: Session, name: str, /, **__: object) -> None:
        attempts.append(name)
        raise StoreLocked("canceling statement due to lock timeout")

    monkeypatch.setattr(Session, "rows", in_vain)
    with pytest.raises(StoreLocked):
        await way(shard, held)

    assert attempts == ["fire_due" if way is fires_leased else "claim_due"] * 3
