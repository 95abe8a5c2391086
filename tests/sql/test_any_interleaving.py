"""Prove that a timer is pending or ended exactly once after any interleaving of acts of shards and clients."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest

from shardclock_server.shards.firing import firing_of
from shardclock_server.sql.claims.claim import Scope
from shardclock_server.timers.model import ClaimedTimer
from tests.support.factories import BOUND_S, HolderClient, add_holder, add_schedule, add_timers

FIRED = "TRIGGERED"
CANCELED = "CANCELED"
MOVED = "RESCHEDULED"
SCOPES: tuple[Scope, ...] = ("own", "newest", "sweep", "outage")
PASSING: tuple[Scope, ...] = ("ahead", "newest")  # scans that pass a backlog


@pytest.mark.exhaustive
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
    assert game.waited > 20, "some calls had to wait for others, otherwise the test proves nothing"


class Game:
    """Three shards and three clients act on a few timers, one statement at a time, in random order."""

    def __init__(self, dsn: str, chance: random.Random) -> None:
        self._dsn = dsn
        self._chance = chance
        self._busy: dict[HolderClient, asyncio.Task[Any]] = {}
        self._memory: dict[HolderClient, dict[int, ClaimedTimer]] = {}
        self._in_transaction: set[HolderClient] = set()
        self._stopping: set[HolderClient] = set()
        self.outcomes: dict[str, int] = {}
        self.waited = 0

    async def sit_down(self, stack: AsyncExitStack) -> None:
        """Connect the players, and a session that watches the locks for which players wait."""
        self._watch: asyncpg.Connection = await asyncpg.connect(self._dsn)
        stack.push_async_callback(self._watch.close)
        self._now: datetime = await self._watch.fetchval("select now()")
        self._shards = [HolderClient(self._dsn, holder=number) for number in (1, 2, 3)]
        self._clients = [HolderClient(self._dsn, plans={}) for _ in range(3)]
        for hand in [*self._shards, *self._clients]:
            await stack.enter_async_context(hand)

    async def deal(self) -> None:
        """Make a few new timers, and forget the holders' leases."""
        await self._watch.execute("truncate shardclock.timers, shardclock.command_log, shardclock.holders")
        for shard in self._shards:
            await add_holder(self._dsn, shard.holder)
            self._memory[shard] = {}
        self._keys = await add_timers(self._dsn, 2, "now() + (i - 2) * interval '1 second'")
        self._keys.append(await add_schedule(self._dsn, "R/PT3S", anchor="now() - interval '4 seconds'"))
        self._stopped = False

    async def step(self) -> None:
        """Do one action of a player that waits for no other player."""
        self._settle()
        free = [hand for hand in [*self._shards, *self._clients] if hand not in self._busy]
        if not free:
            return
        hand = self._chance.choice(free)
        self._now += timedelta(seconds=self._chance.choice([0, 0, 0, 0.5, 4]))
        # A client does one action in a transaction, because two clients with several locked rows could deadlock.
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
        async with asyncio.timeout(BOUND_S):
            while self._busy or self._in_transaction:
                for hand in sorted(self._in_transaction - self._busy.keys(), key=lambda it: it.pid):
                    await self._end(hand, commits=True)
                await asyncio.wait(self._busy.values(), timeout=0.01) if self._busy else None
                self._settle()

    async def check(self) -> None:
        """Check the rows of the database against the promises."""
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
        assert stopped or not self._stopped, "a cancellation by name stops a schedule, beside any other act"
        assert len(following) == (0 if stopped else 1), "a schedule continues until it is cancelled, and then no more"
        occurrences = [row["occurrence"] for row in schedule]
        assert len(set(occurrences)) == len(occurrences)

    async def _end(self, hand: HolderClient, *, commits: bool) -> None:
        self._in_transaction.discard(hand)
        await (hand.commit() if commits else hand.rollback())
        self._stopped |= commits and hand in self._stopping
        self._stopping.discard(hand)

    def _settle(self) -> None:
        for hand, task in list(self._busy.items()):
            if task.done():
                del self._busy[hand]
                task.result()

    async def _until_it_ends_or_waits(self, hand: HolderClient, task: asyncio.Task[Any]) -> None:
        async with asyncio.timeout(BOUND_S):
            while not task.done():
                await asyncio.wait([task], timeout=0.004)
                blocked = "select cardinality(pg_blocking_pids($1)) > 0"
                if not task.done() and await self._watch.fetchval(blocked, hand.pid):
                    self.waited += 1
                    return
        self._settle()

    async def _shard_move(self, shard: HolderClient) -> None:
        shard.now = self._now
        held = self._memory[shard]
        if held and self._chance.random() < 0.5:
            # The test never clears a shard's memory, so the shard sends fired, lost and moved timers again.
            await shard.send([firing_of(timer, self._now) for timer in held.values()])
            return
        floor_s = self._chance.choice([None, 0.0, 1.0])
        scope = self._chance.choice(SCOPES if floor_s is None else PASSING)
        fire_overdue, horizon_s = self._chance.random() < 0.5, self._chance.choice([0, 2])
        taken = await shard.take(scope=scope, floor_s=floor_s, fire_overdue=fire_overdue, horizon_s=horizon_s)
        for timer in taken.claimed:
            if (
                self._chance.random() < 0.7
            ):  # In all other cases the answer is lost, and the shard still has the previous row version.
                held[timer.timer_key] = timer

    async def _client_move(self, client: HolderClient) -> None:
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
