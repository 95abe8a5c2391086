"""Bring a Postgres near its limits: all connections in use, a write-ahead log for a lost replica."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from tests.support.factories import BOUND_S
from tests.support.monitored import WatchedCluster

TAKEN = 0.95
SEGMENTS = 70  # WAL segments of 16 MiB: together more than 1 GiB, which sets off the alert


@contextmanager
def connections_taken(watched: WatchedCluster) -> Iterator[None]:
    """Open nearly all connections that clients may open, like a pool that is too large."""
    loop = asyncio.new_event_loop()
    (server,) = watched.sql(
        "select current_setting('max_connections')::int"
        " - current_setting('superuser_reserved_connections')::int as most,"
        " (select count(*) from pg_stat_activity where backend_type = 'client backend') as taken"
    )
    taken = [
        loop.run_until_complete(asyncpg.connect(watched.dsn, timeout=BOUND_S))
        for _ in range(int(server["most"] * TAKEN) - server["taken"])
    ]
    try:
        yield
    finally:
        for connection in taken:
            connection.terminate()
        loop.close()


@contextmanager
def replica_lost(watched: WatchedCluster) -> Iterator[None]:
    """Keep a replication slot for a missing replica, and write more log than checkpoints would keep."""
    watched.sql("alter system set max_wal_size = '256MB'")
    watched.sql("select pg_reload_conf()")
    watched.sql("select pg_create_physical_replication_slot('lost', true)")
    for _ in range(SEGMENTS):
        watched.sql("select pg_logical_emit_message(false, 'filler', 'x')")
        watched.sql("select pg_switch_wal()")
    try:
        yield
    finally:
        watched.sql("select pg_drop_replication_slot('lost')")
        watched.sql("alter system reset max_wal_size")
        watched.sql("select pg_reload_conf()")
