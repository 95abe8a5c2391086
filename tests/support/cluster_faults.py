"""Faults of a monitored cluster that last for a block: missing partitions, transactions, clocks, rights."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import asyncpg

from tests.support import ROOT
from tests.support.factories import BOUND_S
from tests.support.monitored import WatchedCluster
from tests.support.program import until

Isolation = Literal["read_committed", "repeatable_read"]


@contextmanager
def log_without_days(watched: WatchedCluster) -> Iterator[None]:
    """Drop the log's future partitions, as if the coordinator had made no partition for a week."""
    days = watched.sql(
        "select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid"
        " where i.inhparent = 'shardclock.command_log'::regclass and c.relname ~ '^command_log_[0-9]{8}$' order by 1"
    )
    for day in days[1:]:
        watched.sql(f"drop table shardclock.{day['relname']}")
    yield
    until(lambda: _makes_days(watched), "the days ahead to be made again")


def _makes_days(watched: WatchedCluster) -> bool:
    """Make the log's future partitions; return False if a reader's lock prevents this."""
    try:
        watched.sql("select shardclock.ensure_log_partitions()")
    except asyncpg.LockNotAvailableError:
        return False
    return True


@contextmanager
def transaction_held(watched: WatchedCluster, text: str, isolation: Isolation = "read_committed") -> Iterator[None]:
    """Keep a transaction open after one statement, like a client that forgets to end its transaction."""
    loop = asyncio.new_event_loop()

    async def begin() -> asyncpg.Connection:
        connection = await asyncpg.connect(watched.dsn, timeout=BOUND_S)
        await connection.execute("set idle_in_transaction_session_timeout = 0")
        await connection.transaction(isolation=isolation).start()
        await connection.execute(text)
        return connection

    connection = loop.run_until_complete(begin())
    try:
        yield
    finally:
        connection.terminate()
        loop.close()


@contextmanager
def reported_clock(watched: WatchedCluster, *, offset_s: float) -> Iterator[None]:
    """Add a source with a wrong clock; a test can't move the machine's own clock."""
    code = (
        "import sys, time\n"
        "from shardclock_server.metrics.report import MetricsReport, Reporter, Sample\n"
        "reporter = Reporter(sys.argv[1])\n"
        "while True:\n"
        "    clock = [Sample('clock_offset_seconds', (), float(sys.argv[2])),"
        " Sample('clock_round_trip_seconds', (), 0.001)]\n"
        "    reporter.send(MetricsReport('skewed', '7', clock))\n"
        "    time.sleep(0.5)\n"
    )
    source = subprocess.Popen([sys.executable, "-c", code, watched.socket_path, str(offset_s)], cwd=ROOT)
    try:
        yield
    finally:
        source.kill()
        source.wait()


@contextmanager
def right_missing(watched: WatchedCluster, right: str, table: str) -> Iterator[None]:
    """Revoke a right from the cluster's roles, as an operator's mistake would."""
    roles = watched.sql(
        "select g.grantee from information_schema.role_table_grants g"
        " where g.table_schema = 'shardclock' and g.table_name = $1 and g.privilege_type = upper($2)"
        " and g.grantee in ('shardclock_shard', 'shardclock_gateway')",
        table,
        right,
    )
    those = ", ".join(role["grantee"] for role in roles)
    watched.sql(f"revoke {right} on shardclock.{table} from {those}")
    try:
        yield
    finally:
        watched.sql(f"grant {right} on shardclock.{table} to {those}")
