"""Count the rows that a prepared statement reads from the timers, while many timers are pending."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import asyncpg

from shardclock_server.sql.session import QUEUE_PLANS
from shardclock_server.sql.statements import statement
from tests.support.factories import add_holder

SLOTS = 840
FAR = 300_000
DUE = 4_200  # five due timers in each slot
UNLIMITED = 8_400  # ten timers for each slot: more than exist
INDEXES_USED = """
    select array_agg(distinct regexp_replace(c.relname, '_[0-9]{8}', ''))
    from pg_class c
    where c.relnamespace = 'shardclock'::regnamespace and c.relkind = 'i' and pg_stat_get_xact_numscans(c.oid) > 0
"""


def counting_rows_read(tables: str = "%") -> str:
    """Return a query for the number of rows that the transaction has read; `tables` is a pattern of `like`."""
    return (
        "select coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0)::integer from pg_stat_xact_user_tables"
        f" where schemaname = 'shardclock' and relname like '{tables}'"
    )


@dataclass(frozen=True)
class Reading:
    """The rows that a statement read from one table, and the pages that it read from all tables, by EXPLAIN."""

    rows: float
    indexes: set[str]
    scans: set[str]
    pages: int


@dataclass(frozen=True)
class Prepared:
    """One statement, prepared as a shard's session does, on a separate connection."""

    connection: asyncpg.Connection
    name: str

    async def explain(self, *literals: str, touched: bool = False, table: str = "timers") -> Reading:
        """Run the statement on due rows, count the rows that it reads, and roll back.

        Without `touched`, all due rows are first updated, so that no transaction has locked their new versions.
        """
        arguments = f"({', '.join(literals)})" if literals else ""
        call = f"explain (analyze, buffers, timing off, format json) execute {self.name} {arguments}"
        transaction = self.connection.transaction()
        await transaction.start()
        try:
            if not touched:
                await self.connection.execute(REWRITE)
            plan = json.loads(await self.connection.fetchval(call))[0]["Plan"]
        finally:
            await transaction.rollback()
        nodes = [node for node in nodes_of(plan) if node.get("Relation Name") == table and is_scan(node)]
        return Reading(
            rows=sum(rows_read(node) for node in nodes),
            indexes={node["Index Name"] for node in nodes if "Index Name" in node},
            scans={node["Node Type"] for node in nodes},
            pages=plan["Shared Hit Blocks"] + plan["Shared Read Blocks"],
        )


def nodes_of(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", []):
        yield from nodes_of(part)


def is_scan(node: dict[str, Any]) -> bool:
    """Return whether a node of a plan reads a table. A node that changes a table, or was not executed, does not
    count."""
    return bool(node["Node Type"].endswith("Scan") and node["Actual Loops"])


def rows_read(node: dict[str, Any]) -> float:
    removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    return float((node["Actual Rows"] + removed) * node["Actual Loops"])


async def prepare(dsn: str, name: str, **plans: str) -> Prepared:
    """Open a session like a shard's, and prepare a statement."""
    return await prepare_as(dsn, name, QUEUE_PLANS | plans)


async def prepare_as(dsn: str, name: str, plans: dict[str, str]) -> Prepared:
    connection = await asyncpg.connect(dsn, server_settings=plans)
    await connection.execute(f"prepare {name} as {statement(name).text}")
    return Prepared(connection, name)


def arguments_of(name: str, **given: object) -> list[str]:
    """Write a statement's arguments in order; missing arguments are null."""
    values = dict.fromkeys(statement(name).parameters) | given
    return ["null" if it is None else f"'{it}'" for it in values.values()]


def taking(
    holder: int,
    *,
    horizon: str = "2 s",
    batch: int = UNLIMITED,
    scope: str = "own",
    fire_overdue: bool = False,
    floor: str | None = None,
    window: tuple[str, int, int] | None = None,
    grants: Mapping[str, str] | None = None,
) -> list[str]:
    """Return the arguments of claim_due, or, for the scopes `outage` and `newest`, of the statement of this scope."""
    recent, full_from, full_count = window_values(window)
    values = {
        "holder": str(holder), "horizon": f"'{horizon}'", "lease": "'10 s'", "batch": str(batch), "scope": f"'{scope}'",
        "floor": "null" if floor is None else f"'{floor}'", "fire_overdue": str(fire_overdue), "ramp_after": "'10 s'",
        **(grants or GRANTS), "after_tenant": "''", "lag_edges": EDGES, "now": "null", "slot": "null",
        "recent": recent, "full_from": full_from, "full_count": full_count,
    }  # fmt: skip
    name = {"outage": "claim_outage", "newest": "claim_newest"}.get(scope, "claim_due")
    return [values[parameter] for parameter in statement(name).parameters]


def granting(workers: Sequence[int], targets: Sequence[str], places: int) -> dict[str, str]:
    """Return the arguments with the number of deliveries that each worker grants to each target."""
    each = [(worker, target) for worker in workers for target in targets]
    columns = zip(*each, strict=True)
    by, of = (", ".join(map(repr, column)) for column in columns)
    return GRANTS | {
        "granted_by": f"array[{by}]::bigint[]",
        "granted_targets": f"array[{of}]",
        "granted_places": f"array_fill({places}, array[{len(each)}])",
    }


def counting(edges: Sequence[timedelta], now: str = "null", *, window: tuple[str, int, int] | None = None) -> list[str]:
    """Write the arguments of count_due."""
    spelled = ", ".join(f"interval '{edge.total_seconds()} s'" for edge in edges)
    return [f"array[{spelled}]", now, *window_values(window)]


def window_values(window: tuple[str, int, int] | None = None) -> list[str]:
    """Return the arguments of a scan window; measure_cluster has no other arguments."""
    return [str(it) for it in window or ("null", "null", "null")]


# No worker has granted capacity for deliveries.
GRANTS = {
    "granted_by": "'{}'::bigint[]", "granted_targets": "'{}'::text[]", "granted_places": "'{}'::integer[]",
    "granted_lease": "'5 s'",
}  # fmt: skip
EDGES = "'{0.001 s, 0.1 s, 10 s}'::interval[]"
# A thousand timers that are due, leased to holder 9.
LEASE = """
with held as (
    update shardclock.timers set claimed_by = 9, claimed_until = now() + interval '10 s'
    where timer_key in (select timer_key from shardclock.timers where due_date < now() limit 1000)
    returning timer_key
)
select array_agg(timer_key) from held
"""
# Gives each due timer a new row version, which no transaction has locked yet.
REWRITE = "update shardclock.timers set payload = null where due_date < now()"


async def version_of(connection: asyncpg.Connection, keys: Sequence[int]) -> int:
    """Read the row version that all these timers have, because one statement has written them."""
    (row,) = await connection.fetch("select distinct xmin from shardclock.timers where timer_key = any ($1)", keys)
    return int(row["xmin"])


def firing(keys: Sequence[int], version: int = 0) -> list[str]:
    """Write the arguments of fire_due: plain timers, all held by holder 9."""
    filled = "array_fill({}, array[" + str(len(keys)) + "])"
    versions, zeros, fires = filled.format(f"'{version}'::xid"), filled.format("0::bigint"), filled.format("true")
    numbers, moments = filled.format("null::bigint"), filled.format("null::timestamptz")
    keys_text = f"'{{{', '.join(map(str, keys))}}}'::bigint[]"
    return [
        "9",
        keys_text,
        versions,
        fires,
        zeros,
        numbers,
        moments,
        moments,
        numbers,
        numbers,
        *GRANTS.values(),
        EDGES,
        "null",
    ]


async def fill(dsn: str) -> None:
    """Make 300,000 timers that are due in a day or later, and some overdue timers, without ANALYZE."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("alter table shardclock.timers set (autovacuum_enabled = off)")
        insert = "insert into shardclock.timers (due_date) select {} from generate_series(1, {}) i"
        await connection.execute(insert.format("now() + interval '1 day' + i * interval '0.1 second'", FAR))
        await connection.execute(insert.format("now() - i * interval '0.001 second'", DUE))
    finally:
        await connection.close()
    for shard_count in (1, 2, 7):
        await add_holder(dsn, shard_count, 0, shard_count)


# Statements for one timer: $1 is its key.
VERBS = (
    "select shardclock.reschedule_timer(timer_key => $1, delay => 'PT1H')",
    "select shardclock.reschedule_timer(name => 'n', shift => 'PT1H')",
    "select shardclock.pause_timer(name => 'n')",
    "select shardclock.resume_timer(timer_key => $1)",
    "select shardclock.run_timer(name => 'n')",
    "select shardclock.reschedule_timer(name => 'n', schedule => '0 8 * * MON')",
    "select shardclock.cancel_timer(name => 'n')",
    "select shardclock.cancel_timer(timer_key => $1)",
    "select shardclock.cancel_process_instance(7)",
)
