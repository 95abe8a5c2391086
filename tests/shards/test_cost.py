"""Compare the cost of a firing with bounds that hold on any machine: write-ahead log, statements, memory.

Unlike the seconds of the benchmarks, these figures are the same on each machine, so they show each change that costs
more.
"""

from __future__ import annotations

import asyncio
import gc
import tempfile
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from shardclock_server.embedded.server import EmbeddedPostgres
from shardclock_server.shards.settings import ShardSettings
from shardclock_server.shards.shard import Shard
from shardclock_server.sql.session import Record, Session
from tests.support.factories import add_holder, add_timers, query
from tests.support.memory import IN_MEMORY
from tests.support.roles import as_role, migrate_with_roles
from tests.support.shard_pool import incarnation

FUSED, LEASED = 4_000, 900  # a shard with more than two thousand timers a second does not lease them
HERE = "pg_current_wal_insert_lsn() - '0/0'"
# Bytes of write-ahead log, of insert and firing together, without the pages that a checkpoint makes Postgres repeat.
FUSED_MOST, LEASED_MOST = 660, 1_000
# Bytes of the shard's memory for each timer, and the size of the buffer that asyncio makes for each read of a socket.
FUSED_TAKES, LEASED_TAKES = 10, 800
RECEIVED = 256 * 1024

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Run a server that writes WAL only for statements, because full-page writes and autovacuum are off."""
    with tempfile.TemporaryDirectory(prefix="shardclock-test-", dir=IN_MEMORY) as place:
        postgres = EmbeddedPostgres.start(Path(place) / "data")
        try:
            asyncio.run(_configure(postgres.dsn))
            yield postgres.dsn
        finally:
            postgres.close()


async def _configure(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute("alter system set full_page_writes = off")
    await connection.execute("alter system set autovacuum = off")
    await connection.execute("select pg_reload_conf()")
    await connection.close()
    await migrate_with_roles(dsn)


@pytest.fixture
async def shard(server: str) -> AsyncIterator[Shard]:
    """Yield the only shard of an empty table; the test calls the shard's turns."""
    await query(server, "truncate shardclock.timers, shardclock.command_log")
    one = Shard(incarnation(), ShardSettings(fire_batch=450, sweep_s=3_600.0), as_role(server, "shard"))
    await add_holder(server, one.holder, 0, 1)
    await one.beat_turn()
    await add_timers(server, 2)
    await add_timers(server, 1, "now() + interval '0.1 s'")
    await one.claim_turn()
    await fire_all(one)  # now all statements are prepared
    one.stats.fired = 0
    yield one
    await one._hand_back()


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    sent: list[str] = []
    real = Session.rows

    async def recording(self: Session, name: str, /, **values: Any) -> list[Record]:
        sent.append(name)
        return await real(self, name, **values)

    monkeypatch.setattr(Session, "rows", recording)
    return sent


async def written(dsn: str) -> int:
    """Return the number of bytes of log that have been written so far."""
    return int((await query(dsn, f"select {HERE} as bytes"))[0]["bytes"])


async def fire_all(shard: Shard) -> None:
    """Wait until the timers in memory are due, and fire them."""
    while len(shard):
        await shard.fire_turn()


async def test_one_statement_fires_thousands_of_overdue_timers(
    server: str, shard: Shard, statements: list[str]
) -> None:
    before = await written(server)
    await add_timers(server, FUSED)
    statements.clear()

    await shard.claim_turn()

    assert shard.stats.fired == FUSED
    assert statements == ["claim_due"]
    assert (await written(server) - before) / FUSED <= FUSED_MOST


async def test_one_statement_fires_a_batch_of_leased_timers(server: str, shard: Shard, statements: list[str]) -> None:
    before = await written(server)
    await add_timers(server, LEASED, "now() + interval '1 s'")
    statements.clear()
    await shard.claim_turn()
    assert len(shard) == LEASED

    await fire_all(shard)

    assert shard.stats.fired == LEASED
    # After a long pause of this process a batch may be cut into two.
    assert statements in [["claim_due", *["fire_due"] * count] for count in (2, 3)]
    assert (await written(server) - before) / LEASED <= LEASED_MOST


@pytest.mark.exhaustive
@pytest.mark.parametrize(("timers", "delay"), [(FUSED, "0 s"), (LEASED, "1 s")], ids=["fused", "leased"])
async def test_a_timer_takes_memory_only_while_it_is_leased(server: str, shard: Shard, timers: int, delay: str) -> None:
    tracemalloc.start()
    try:
        for _ in range(4):  # after these rounds, all objects that are kept for reuse exist
            await take_and_fire(server, shard, timers, delay)
        before, _ = tracemalloc.get_traced_memory()
        peak = await take_and_fire(server, shard, timers, delay)
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak <= RECEIVED + (FUSED_TAKES if timers == FUSED else LEASED_TAKES) * timers
    assert left - before <= RECEIVED, "one answer may be kept until the next is read"


async def take_and_fire(dsn: str, shard: Shard, timers: int, delay: str) -> int:
    """Lease timers in the shard, and fire them; return the shard's peak memory until the timers are leased."""
    fired = shard.stats.fired
    await add_timers(dsn, timers, f"now() + interval '{delay}'")
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    await shard.claim_turn()
    _, peak = tracemalloc.get_traced_memory()
    assert len(shard) == (0 if timers == FUSED else timers)
    await fire_all(shard)
    assert shard.stats.fired == fired + timers
    gc.collect()
    return peak - before
