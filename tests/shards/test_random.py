"""With random faults, the rows keep every promise; if a bug is seeded, the check finds it."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import asyncpg
import pytest

from shardclock_server.keepers.heartbeat import HolderEnded
from shardclock_server.shards.shard import Shard
from tests.support.factories import add_timers
from tests.support.shard_pool import ShardPool, connect
from tests.support.verdict import CHECKS, breaches

CUT = (
    "select pg_terminate_backend(pid) from pg_stat_activity"
    " where datname = current_database() and application_name like 'shardclock shard%'"
)
TUNING: dict[str, Any] = {"lease_s": 3.0, "horizon_s": 1.0, "heartbeat_s": 0.3, "sweep_grace_s": 1.0, "fire_batch": 50}
STEPS, STEP_S = 60, 0.08


class LoadWithFaults:
    """Run a load with faults, and record the answers that the clients got."""

    def __init__(self, pool: ShardPool, client: asyncpg.Connection, seed: int) -> None:
        self.pool, self.client, self.random = pool, client, random.Random(seed)
        self.places: list[Shard] = []
        self.keys: list[int] = []
        self.answers: dict[str, set[int]] = {"CANCELED": set(), "TRIGGERED": set(), "RESCHEDULED": set()}
        self.done: Counter[str] = Counter()

    async def whole(self) -> None:
        self.places = [await self.pool.start(place, 2, **TUNING) for place in range(2)]
        faults = [self.cut, self.end, self.kill, self.drain, self.scale, self.lock]
        for _ in range(STEPS):
            await self.schedule()
            await self.cancel()
            await self.reschedule()
            if self.random.random() < 0.5:
                fault = self.random.choice(faults)
                await fault()
                self.done[fault.__name__] += 1
            await asyncio.sleep(STEP_S)  # the pace of the load
        await self.pool.until_empty()

    async def schedule(self) -> None:
        self.keys += await add_timers(self.pool.dsn, 20, f"now() + random() * interval '{self.random.random():.3f} s'")
        if self.random.random() < 0.2:
            name, count = f"rule {len(self.keys)}", self.random.randint(1, 8)
            text = "select shardclock.schedule_timer(schedule => $1, name => $2)"
            self.keys.append(await self.client.fetchval(text, f"R{count}/PT0.3S", name))

    async def cancel(self) -> None:
        for key in self.random.sample(self.keys[-60:], 3):
            self.answers[await self.client.fetchval("select shardclock.cancel_timer($1)", key)].add(key)

    async def reschedule(self) -> None:
        for key in self.random.sample(self.keys[-60:], 3):
            text = "select shardclock.reschedule_timer($1, delay => $2)"
            delay = f"PT{self.random.random():.3f}S"
            self.answers[await self.client.fetchval(text, key, delay)].add(key)

    async def cut(self) -> None:
        await self.client.execute(CUT + " order by random() limit $1", self.random.randint(1, 4))

    async def end(self) -> None:
        """Declare a living shard dead; the shard notices by itself."""
        place, shard = self._any()
        await self.pool.end(shard.holder)
        await self._replace(place, shard)

    async def kill(self) -> None:
        """Lose a shard in the middle of its work, but do not end its holder."""
        place, shard = self._any()

        async def nothing() -> dict[str, int]:
            shard._claims._drop()
            shard._fires._drop()
            return {}

        shard._hand_back = nothing  # type: ignore[method-assign]
        self.pool.work[shard].cancel()
        await self._replace(place, shard)

    async def drain(self) -> None:
        place, shard = self._any()
        await shard.drain()
        await self._replace(place, shard)

    async def scale(self) -> None:
        while len(self.places) < 4 and self.random.random() < 0.7:
            self.places.append(await self.pool.start(None, None, **TUNING))
        count = self.random.randint(1, len(self.places))
        await self.pool.assign({s: (at, count) if at < count else None for at, s in enumerate(self.places)})

    async def lock(self) -> None:
        """Lock some rows, and roll back, as a client does that abandons a change."""
        with suppress(_ChangedMind):
            async with self.client.transaction():
                await self.client.execute(
                    "select from shardclock.timers where timer_key = any ($1) for update", self.keys[-30:]
                )
                await asyncio.sleep(STEP_S)
                raise _ChangedMind

    def _any(self) -> tuple[int, Shard]:
        place = self.random.randrange(len(self.places))
        return place, self.places[place]

    async def _replace(self, place: int, shard: Shard) -> None:
        work = self.pool.work.pop(shard)
        where = await self.client.fetchrow(
            "select part, part_count from shardclock.holders where holder = $1", shard.holder
        )
        replacement = await self.pool.start(place, len(self.places), **TUNING)
        self.places[place] = replacement
        if where and where["part"] is not None:
            await self.pool.assign({replacement: (where["part"], where["part_count"])})
        if self.random.random() < 0.5:
            return  # the old shard also continues to run
        with suppress(HolderEnded, asyncio.CancelledError):
            await work


class _ChangedMind(Exception):
    """Rolls a client's transaction back."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", [1])
async def test_random_faults_break_no_promise(pool: ShardPool, seed: int) -> None:
    run = LoadWithFaults(pool, await connect(pool.dsn), seed)
    try:
        await run.whole()
    finally:
        run.client.terminate()

    assert await breaches(pool.db, run.keys) == {}
    assert set(run.done) == {"cut", "end", "kill", "drain", "scale", "lock"}, "each kind of fault was drawn"
    records = await pool.db.fetch("select timer_key, intent from shardclock.command_log")
    ended = {intent: {row["timer_key"] for row in records if row["intent"] == intent} for intent in run.answers}
    for answer, keys in run.answers.items():
        assert keys, f"some client was answered {answer}"
        assert keys <= ended[answer], f"{answer} was the truth"


LOGGED = (
    "insert into shardclock.command_log"
    " (intent, timer_key, due_date, recorded_at, created_at, occurrence, tenant_id, timer_type, target, name, schedule,"
    " detail) values ($1, $2, now() - interval '1 h', now() + $3 * interval '1 s', now(), $4, 'default', 'USER', 'log',"
    " $5, $6, $7)"
)


@pytest.fixture
async def db(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await connect(dsn)
    yield connection
    connection.terminate()


async def log(
    db: asyncpg.Connection, intent: str, key: int = 1, *, late_s: float = 0, occurrence: int = 0, skipped: int = 0
) -> None:
    rule = ("rule", "R/PT1S") if occurrence else (None, None)
    detail = {"SKIPPED": f'{{"count": {skipped}}}', "RESCHEDULED": '{"due_date": "2026-01-01T00:00:00+00:00"}'}
    await db.execute(LOGGED, intent, key, late_s, occurrence or 1, *rule, detail.get(intent))


async def _early(db: asyncpg.Connection) -> None:
    await log(db, "TRIGGERED", late_s=-3601)


async def _lost(db: asyncpg.Connection) -> None:
    await log(db, "RESCHEDULED", 7)


async def _double(db: asyncpg.Connection) -> None:
    await log(db, "TRIGGERED")
    await log(db, "TRIGGERED")


async def _occurrence_twice(db: asyncpg.Connection) -> None:
    await log(db, "TRIGGERED", 1, occurrence=3)
    await log(db, "TRIGGERED", 2, occurrence=3)


async def _fired_and_cancelled(db: asyncpg.Connection) -> None:
    await log(db, "CANCELED")
    await log(db, "TRIGGERED")


async def _still_pending(db: asyncpg.Connection) -> None:
    await db.execute("insert into shardclock.timers (timer_key, due_date) values (1, now())")
    await log(db, "TRIGGERED")


async def _old_due_date(db: asyncpg.Connection) -> None:
    await log(db, "RESCHEDULED")
    await log(db, "TRIGGERED")


async def _out_of_order(db: asyncpg.Connection) -> None:
    await log(db, "TRIGGERED", 1, occurrence=2)
    await log(db, "TRIGGERED", 2, occurrence=1)


async def _gap(db: asyncpg.Connection) -> None:
    await log(db, "TRIGGERED", 1, occurrence=1)
    await log(db, "SKIPPED", 1, occurrence=2, skipped=2)
    await log(db, "TRIGGERED", 2, occurrence=5)


async def _good(db: asyncpg.Connection) -> None:
    await log(db, "TRIGGERED", 1, occurrence=1)
    await log(db, "SKIPPED", 1, occurrence=2, skipped=2)
    await log(db, "TRIGGERED", 2, occurrence=4)
    await log(db, "TRIGGERED", 3, occurrence=5)
    await log(db, "CANCELED", 4)
    await log(db, "TRIGGERED", 7)


SEEDED: dict[Callable[[asyncpg.Connection], Awaitable[None]], set[str]] = {
    _early: {"S1 early"},
    _lost: {"S2 lost"},
    _double: {"S3 double"},
    _occurrence_twice: {
        "S3 occurrence fired twice",
        "S5 occurrences out of order",
        "S5 occurrences missing without a record",
    },
    _fired_and_cancelled: {"S4 fired and cancelled"},
    _still_pending: {"S4 ended and still pending"},
    _old_due_date: {"fired at a due date that it was moved from"},
    _out_of_order: {"S5 occurrences out of order", "S5 occurrences missing without a record"},
    _gap: {"S5 occurrences missing without a record"},
    _good: set(),
}


async def test_exactly_the_seeded_bug_is_found(db: asyncpg.Connection) -> None:
    for seed, found in SEEDED.items():
        transaction = db.transaction()
        await transaction.start()
        await seed(db)
        acknowledged = [7] if seed in (_lost, _good) else []
        assert set(await breaches(db, acknowledged)) == found, seed.__name__
        await transaction.rollback()


def test_every_check_has_a_seeded_bug() -> None:
    assert set().union(*SEEDED.values()) == set(CHECKS)
