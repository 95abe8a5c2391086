"""Put timers and holders into a database as tests need them, and read back what became of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Self, TypeVar

import asyncpg

from shards.firing import firing_of
from sql.claims import Fired, Firing, Scope, Taken, Walk, fire_due, take_due
from sql.lookback import Lately
from sql.session import QUEUE_PLANS, Session
from timers.model import ClaimedTimer

T = TypeVar("T")
BOUND_S = 30.0  # no test waits longer than this for anything


async def query(dsn: str, text: str, *args: Any) -> list[asyncpg.Record]:
    """Run one statement on a connection of its own."""
    connection = await asyncpg.connect(dsn, timeout=BOUND_S, server_settings={"timezone": "UTC"})
    try:
        rows: list[asyncpg.Record] = await connection.fetch(text, *args, timeout=BOUND_S)
        return rows
    finally:
        await connection.close(timeout=BOUND_S)


async def value(dsn: str, text: str, *args: Any) -> Any:
    """Run one statement, for the first column of its first row."""
    return (await query(dsn, text, *args))[0][0]


async def intents(dsn: str) -> Counter[tuple[int, str]]:
    """Count the records of each timer_key and intent."""
    rows = await query(dsn, "select timer_key, intent, count(*) from shardclock.command_log group by 1, 2")
    return Counter({(row["timer_key"], row["intent"]): row["count"] for row in rows})


async def add_holder(dsn: str, holder: int, shard: int | None = 0, shard_count: int | None = 1) -> None:
    """Register a holder with its assignment, as the coordinator would."""
    await query(
        dsn,
        "insert into shardclock.holders (holder, cluster_id, actor_name, node_id, host, pid, shard, shard_count)"
        " values ($1, 'test', 'test', 'test', 'test', 1, $2, $3)",
        holder,
        shard,
        shard_count,
    )


async def add_timers(dsn: str, count: int, due: str = "now() - interval '1 second'", **columns: str) -> list[int]:
    """Insert timers whose columns are SQL expressions of i, from 1; their keys come back."""
    names = ", ".join(["due_date", *columns])
    values = ", ".join([due, *columns.values()])
    text = f"insert into shardclock.timers ({names}) select {values} from generate_series(1, $1) i returning timer_key"
    return sorted(row["timer_key"] for row in await query(dsn, text, count))


async def add_schedule(
    dsn: str, schedule: str = "R/PT1H", due: str = "now() - interval '1 second'", **more: str
) -> int:
    """Insert the first occurrence of a schedule, due already; its name is 'beat'."""
    rule = {"name": "'beat'", "schedule": f"'{schedule}'", "anchor": "now() - interval '1 hour 1 second'"}
    columns = rule | {"repetitions": "-1"} | more
    return (await add_timers(dsn, 1, due, **columns))[0]


@asynccontextmanager
async def old_snapshot(dsn: str) -> AsyncIterator[None]:
    """Hold a snapshot of now: what fires meanwhile stays in the table, and no vacuum clears it away."""
    async with Hand(dsn) as reader:
        await reader.begin()
        await reader.connection.execute("set transaction isolation level repeatable read")
        await reader.connection.execute("set local idle_in_transaction_session_timeout = 0")
        await reader.value("select count(*) from shardclock.timers")
        yield


async def add_fired_rows(dsn: str, count: int) -> None:
    """Leave so many rows that fell due a minute ago, and have fired; autovacuum is off from now on."""
    await query(dsn, "alter table shardclock.timers set (autovacuum_enabled = off)")
    await add_timers(dsn, count, "now() - interval '1 minute'")
    await query(dsn, "delete from shardclock.timers")


@dataclass(eq=False)
class Hand:
    """One connection that a test moves by hand: a statement at a time, in a transaction that it keeps open."""

    dsn: str
    holder: int = 0
    now: datetime | None = None
    plans: dict[str, str] = field(default_factory=lambda: QUEUE_PLANS)

    async def __aenter__(self) -> Self:
        self.session = Session(self.dsn, application="test", timeout_s=BOUND_S, plans=self.plans)
        self._stack = AsyncExitStack()
        self.pid: int = await self.value("select pg_backend_pid()")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.rollback()
        await self.session.close()

    async def value(self, text: str, *args: Any) -> Any:
        """Run a statement in the open transaction, if there is one."""
        async with self.session.connection() as connection:
            return await connection.fetchval(text, *args)

    async def begin(self) -> None:
        """Open a transaction: what follows is committed by `commit` only."""
        self.connection = await self._stack.enter_async_context(self.session.transaction())

    async def commit(self) -> None:
        """Commit what was done since `begin`."""
        await self._stack.aclose()

    async def rollback(self) -> None:
        """Undo what was done since `begin`, if anything."""
        with suppress(_Undo):
            await self._stack.__aexit__(_Undo, _Undo(), None)

    async def take(
        self,
        *,
        scope: Scope = "own",
        horizon_s: float = 2.0,
        fuse: bool = False,
        batch: int = 4200,
        floor_s: float | None = None,
        after_tenant: str = "",
        lately: Lately | None = None,
    ) -> Taken:
        """Take what is due, by the hand's own clock if it has one; nothing is fused unless told."""
        return await take_due(
            self.session,
            self.holder,
            Walk(scope, horizon_s, batch, floor_s, after_tenant, lately),
            lease_s=10.0,
            fuse=fuse,
            now=self.now,
        )

    async def fire(self, timers: Sequence[ClaimedTimer], *, now: datetime | None = None) -> Fired:
        """Fire timers with what follows them, as a shard does."""
        moment = now or self.now or await self.value("select now()")
        return await fire_due(
            self.session, self.holder, [firing_of(timer, moment) for timer in timers], now=now or self.now
        )

    async def send(self, firings: Sequence[Firing]) -> frozenset[int]:
        """Send firings as they are; the keys that fired come back."""
        return (await fire_due(self.session, self.holder, firings, now=self.now)).timer_keys

    async def cancel(self, **which: Any) -> str:
        """Call the SQL function, as any client may."""
        return str(await self._call("cancel_timer", which))

    async def reschedule(self, **which: Any) -> str:
        """Call the SQL function, as any client may."""
        return str(await self._call("reschedule_timer", which))

    async def _call(self, function: str, arguments: dict[str, Any]) -> Any:
        named = ", ".join(f"{name} => ${number}" for number, name in enumerate(arguments, 1))
        return await self.value(f"select shardclock.{function}({named})", *arguments.values())


class _Undo(Exception):
    """Rolls a transaction back."""


async def until_blocked(dsn: str, pid: int, task: asyncio.Task[Any]) -> None:
    """Wait until a backend waits for another's lock; its task must not be done before."""
    async with asyncio.timeout(BOUND_S):
        connection = await asyncpg.connect(dsn)
        try:
            while not await connection.fetchval("select cardinality(pg_blocking_pids($1)) > 0", pid):
                assert not task.done(), "it was to wait for somebody's lock"
        finally:
            await connection.close()


async def waits(hand: Hand, work: Awaitable[T]) -> asyncio.Task[T]:
    """Start a hand's work, which must come to wait for somebody else's lock."""
    task = asyncio.ensure_future(work)
    assert isinstance(task, asyncio.Task)
    await until_blocked(hand.dsn, hand.pid, task)
    return task


async def ends(task: asyncio.Task[T]) -> T:
    """Wait for work that no lock holds up any more."""
    async with asyncio.timeout(BOUND_S):
        return await task


def seconds(number: float) -> timedelta:
    """Write a timedelta shortly."""
    return timedelta(seconds=number)
