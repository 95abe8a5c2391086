"""Under faults drawn at random, the recorded rows keep every promise."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress
from typing import Any

import asyncpg
import pytest

from shardclock_server.keepers.heartbeat import HolderEnded
from shardclock_server.shards.shard import Shard
from tests.support.factories import add_timers
from tests.support.shard_pool import ShardPool, connect
from tests.support.verdict import breaches

CUT = (
    "select pg_terminate_backend(pid) from pg_stat_activity"
    " where datname = current_database() and application_name like 'shardclock shard%'"
)
TUNING: dict[str, Any] = {"lease_s": 3.0, "horizon_s": 1.0, "heartbeat_s": 0.3, "sweep_grace_s": 1.0, "fire_batch": 50}
STEPS, STEP_S = 60, 0.08


class Run:
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
        """Lock some rows, and roll back, like a client that cancels its own change."""
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
            return  # the old shard continues beside the new shard
        with suppress(HolderEnded, asyncio.CancelledError):
            await work


class _ChangedMind(Exception):
    """Rolls a client's transaction back."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", [1])
async def test_random_faults_break_no_promise(pool: ShardPool, seed: int) -> None:
    run = Run(pool, await connect(pool.dsn), seed)
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
