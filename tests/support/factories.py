"""Put timers and holders into a database, and read their rows and records."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Self, TypeVar

import asyncpg

from shardclock_server.shards.firing import firing_of
from shardclock_server.sql.claims.claim import Scan, ScanResult, Scope, claim_due
from shardclock_server.sql.claims.handed import NO_GRANTS, Grants
from shardclock_server.sql.claims.scan_window import ScanWindow
from shardclock_server.sql.cluster.holders import SHARD, Holder
from shardclock_server.sql.firing.fire import Fired, Firing, fire_due
from shardclock_server.sql.session import QUEUE_PLANS, Session
from shardclock_server.sql.statements import statement
from shardclock_server.timers.model import ClaimedTimer
from tests.support import connections
from tests.support.roles import as_role

T = TypeVar("T")
BOUND_S = 30.0  # the time limit of each wait in a test
ANCHOR = datetime(2026, 3, 29, 12, tzinfo=UTC)  # summer time begins on this day in Europe


async def query(dsn: str, text: str, *args: Any) -> list[asyncpg.Record]:
    """Run one statement on a connection that no other call uses at that time."""
    return await connections.fetch(dsn, text, *args)


async def value(dsn: str, text: str, *args: Any) -> Any:
    """Run one statement, and return the first column of its first row."""
    return (await query(dsn, text, *args))[0][0]


def sql(dsn: str, text: str, *args: Any) -> list[asyncpg.Record]:
    """Run one statement in a test without an event loop."""
    return asyncio.run(query(dsn, text, *args))


async def holders_of(dsn: str, role: str | None = None) -> list[Holder]:
    """List the living holders, of one role or of all roles, by part; holders without slots come last."""
    rows = await query(dsn, *statement("list_holders").with_values({"role": role}))
    return [Holder(**dict(row)) for row in rows]


async def intents(dsn: str) -> Counter[tuple[int, str]]:
    rows = await query(dsn, "select timer_key, intent, count(*) from shardclock.command_log group by 1, 2")
    return Counter({(row["timer_key"], row["intent"]): row["count"] for row in rows})


async def pending_keys(dsn: str) -> list[int]:
    rows = await query(dsn, "select timer_key from shardclock.timers order by timer_key")
    return [row["timer_key"] for row in rows]


async def pending_rows(dsn: str) -> list[dict[str, Any]]:
    return [dict(row) for row in await query(dsn, "select * from shardclock.timers order by timer_key")]


async def only_timer(hand: HolderClient) -> dict[str, Any]:
    """Read the only timer in the client's own transaction."""
    async with hand.session.connection() as connection:
        (row,) = await connection.fetch("select * from shardclock.timers")
    return dict(row)


async def recorded(dsn: str) -> list[tuple[int, str]]:
    rows = await query(dsn, "select timer_key, intent from shardclock.command_log order by position")
    return [(row["timer_key"], row["intent"]) for row in rows]


async def add_holder(
    dsn: str, holder: int, part: int | None = 0, part_count: int | None = 1, *, role: str = SHARD
) -> None:
    """Register a holder with its assignment, as the coordinator does."""
    await query(
        dsn,
        "with registered as ("
        " insert into shardclock.holders (holder, role, cluster_id, actor_name, node_id, host, pid, part, part_count)"
        " values ($1, $4, 'test', 'test', 'test', 'test', 1, $2, $3) returning holder)"
        " insert into shardclock.beats (holder) select holder from registered",
        holder,
        part,
        part_count,
        role,
    )


async def add_timers(dsn: str, count: int, due: str = "now() - interval '1 second'", **columns: str) -> list[int]:
    """Insert timers and return their keys; the columns are SQL expressions with a counter i from 1.

    By default an overdue timer was created before its due date, as after an outage.
    """
    columns = {"created_at": f"least(now(), {due})"} | columns
    names = ", ".join(["due_date", *columns])
    values = ", ".join([due, *columns.values()])
    text = f"insert into shardclock.timers ({names}) select {values} from generate_series(1, $1) i returning timer_key"
    return sorted(row["timer_key"] for row in await query(dsn, text, count))


async def add_schedule(
    dsn: str, schedule: str = "R/PT1H", due: str = "now() - interval '1 second'", **more: str
) -> int:
    rule = {"name": "'beat'", "schedule": f"'{schedule}'", "anchor": "now() - interval '1 hour 1 second'"}
    columns = rule | {"repetitions": "-1"} | more
    return (await add_timers(dsn, 1, due, **columns))[0]


async def held_beat(shard: HolderClient, **more: str) -> list[ClaimedTimer]:
    """Lease a schedule's occurrence that is due in a minute, as a shard."""
    await add_schedule(
        shard.dsn, "R/PT1H", "now() + interval '1 minute'", anchor="now() - interval '59 minutes'", **more
    )
    held = (await shard.take()).claimed
    assert len(held) == 1
    return held


def ended_rule() -> str:
    """Write an hourly repeat that ended an hour and a half ago."""
    return f"R/PT1H/{(datetime.now(UTC) - timedelta(minutes=90)).isoformat()}"


@asynccontextmanager
async def old_snapshot(dsn: str) -> AsyncIterator[None]:
    """Keep a snapshot open during a block, so that vacuum removes no rows of timers that fire in the block."""
    # Not in one of our sessions, because a `Session` ends a transaction after some time.
    reader = await asyncpg.connect(as_role(dsn, "reader"), timeout=BOUND_S)
    try:
        async with reader.transaction(isolation="repeatable_read"):
            await reader.fetchval("select count(*) from shardclock.timers")
            yield
    finally:
        await reader.close(timeout=BOUND_S)


async def add_fired_rows(dsn: str, count: int) -> None:
    """Leave `count` dead rows of timers that were due a minute ago, and turn autovacuum off."""
    await query(dsn, "alter table shardclock.timers set (autovacuum_enabled = off)")
    await add_timers(dsn, count, "now() - interval '1 minute'")
    await query(dsn, "delete from shardclock.timers")


async def live_through(dsn: str, days_ago: int) -> None:
    """Record that a coordinator has led on each day from `days_ago` until today."""
    text = "insert into shardclock.log_days select (now() at time zone 'UTC')::date - i from generate_series(0, $1) i"
    await query(dsn, f"{text} on conflict do nothing", days_ago)


@dataclass(eq=False)
class HolderClient:
    """One connection that a test controls statement by statement, with transactions that stay open.

    The connection has the rights of the given role. Without a role, a connection with a holder has the rights of a
    shard, and a connection without a holder has the rights of a scheduler.
    """

    dsn: str
    holder: int = 0
    now: datetime | None = None
    plans: dict[str, str] = field(default_factory=lambda: QUEUE_PLANS)
    role: str | None = None

    async def __aenter__(self) -> Self:
        role = self.role or ("shard" if self.holder else "scheduler")
        self.session = Session(as_role(self.dsn, role), application="test", timeout_s=BOUND_S, plans=self.plans)
        # A second session, because a shard's role may not schedule.
        self._client = Session(as_role(self.dsn, "scheduler"), application="test", timeout_s=BOUND_S, plans=self.plans)
        self._stack = AsyncExitStack()
        self.pid: int = await self.value("select pg_backend_pid()")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.rollback()
        await self.session.close()
        await self._client.close()

    async def value(self, text: str, *args: Any) -> Any:
        """Run a statement, in the open transaction if one is open."""
        async with self.session.connection() as connection:
            return await connection.fetchval(text, *args)

    async def begin(self) -> None:
        """Open a transaction: only `commit` commits the next statements."""
        self.connection = await self._stack.enter_async_context(self.session.transaction())

    async def commit(self) -> None:
        """Commit the transaction that `begin` opened."""
        await self._stack.aclose()

    async def rollback(self) -> None:
        """Roll back the transaction that `begin` opened, if it is open."""
        with suppress(_Undo):
            await self._stack.__aexit__(_Undo, _Undo(), None)

    async def take(
        self,
        *,
        scope: Scope = "own",
        horizon_s: float = 2.0,
        fire_overdue: bool = False,
        batch: int = 4200,
        floor_s: float | None = None,
        after_tenant: str = "",
        window: ScanWindow | None = None,
        slot: int | None = None,
        grants: Grants = NO_GRANTS,
    ) -> ScanResult:
        """Claim due timers, at `self.now` if the test has set it; only with `fire_overdue` the claim fires overdue
        timers.
        """
        return await claim_due(
            self.session,
            self.holder,
            Scan(scope, horizon_s, batch, floor_s, after_tenant, window, slot),
            lease_s=10.0,
            fire_overdue=fire_overdue,
            grants=grants,
            now=self.now,
        )

    async def fire(
        self, timers: Sequence[ClaimedTimer], *, now: datetime | None = None, grants: Grants = NO_GRANTS
    ) -> Fired:
        """Fire timers and schedule their next occurrences, as a shard does."""
        moment = now or self.now or await self.value("select now()")
        return await fire_due(
            self.session,
            self.holder,
            [firing_of(timer, moment) for timer in timers],
            grants=grants,
            now=now or self.now,
        )

    async def send(self, firings: Sequence[Firing]) -> frozenset[int]:
        """Send firings unchanged; return the keys that fired."""
        return (await fire_due(self.session, self.holder, firings, now=self.now)).timer_keys

    async def cancel(self, **which: Any) -> str:
        return str(await self.call("cancel_timer", which))

    async def reschedule(self, **which: Any) -> str:
        return str(await self.call("reschedule_timer", which))

    async def call(self, function: str, arguments: dict[str, Any]) -> Any:
        """Call a function of the schema as a client; a holder uses its second session."""
        named = ", ".join(f"{name} => ${number}" for number, name in enumerate(arguments, 1))
        caller = self._client if self.holder and self.role is None else self.session
        async with caller.connection() as connection:
            return await connection.fetchval(f"select shardclock.{function}({named})", *arguments.values())


class _Undo(Exception):
    """Raised into a transaction, to roll it back."""


def later(hand: HolderClient, seconds: float) -> None:
    """Move a client's own clock forward or back; the client must have its own clock."""
    assert hand.now is not None
    hand.now += timedelta(seconds=seconds)


async def until_blocked(dsn: str, pid: int, task: asyncio.Task[Any]) -> None:
    """Wait until a backend waits for another backend's lock; fail if the waiting task ends earlier."""
    async with asyncio.timeout(BOUND_S):
        while not await value(dsn, "select cardinality(pg_blocking_pids($1)) > 0", pid):
            assert not task.done(), "it was to wait for a lock"


async def waits(hand: HolderClient, work: Awaitable[T]) -> asyncio.Task[T]:
    """Start work on a client's connection, and wait until another connection's lock blocks the work."""
    task = asyncio.ensure_future(work)
    assert isinstance(task, asyncio.Task)
    await until_blocked(hand.dsn, hand.pid, task)
    return task


async def ends(task: asyncio.Task[T]) -> T:
    """Wait for the end of the blocked statement after the lock is released."""
    async with asyncio.timeout(BOUND_S):
        return await task


def plain(timer_key: int, due_date: datetime = ANCHOR) -> ClaimedTimer:
    return ClaimedTimer(timer_key, due_date, None, "UTC", "fire_once", None, None, 0, 1, 1, False, None, 0, 1)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)
