"""Prove that shards continue after an outage of Postgres, a changed password and a wrong clock."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import asyncpg
import pytest
from structlog.testing import capture_logs

from shardclock_server.embedded.server import EmbeddedPostgres
from shardclock_server.shards import shard as shard_module
from shardclock_server.shards.settings import ShardSettings
from shardclock_server.shards.shard import Shard
from shardclock_server.sql.claims.claim import ScanResult
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.firing.fire import Fired, Firing
from shardclock_server.sql.session import Session, StoreTooSlow, StoreUnavailable
from tests.support.factories import add_holder, add_schedule, add_timers, intents, query
from tests.support.logins import FIRST, Login, guarded
from tests.support.memory import IN_MEMORY
from tests.support.roles import as_role, migrate_with_roles
from tests.support.shard_pool import ShardPool, connect, incarnation, pool_of
from tests.support.verdict import breaches
from tests.support.waiting import eventually

# The next commit of a heartbeat takes this time, as on a disk that hangs. Postgres 17 and later ends the transaction
# by `transaction_timeout`.
SLOW_S = 1.5
SLOW_COMMIT = f"""
create sequence public.commits;
create function public.commit_slowly() returns trigger language plpgsql security definer as $$
begin
    if nextval('public.commits') = 1 then perform pg_sleep({SLOW_S}); end if;
    return null;
end $$;
create constraint trigger commit_slowly after update on shardclock.beats deferrable initially deferred
for each row execute function public.commit_slowly();
"""
CUT = (
    "select pg_terminate_backend(pid) from pg_stat_activity"
    " where datname = current_database() and application_name like 'shardclock shard%' order by random() limit 1"
)


@pytest.fixture
def own_server() -> Iterator[EmbeddedPostgres]:
    """Yield a server that only this test uses, and may kill."""
    data_dir = Path(tempfile.mkdtemp(prefix="shardclock-test-", dir=IN_MEMORY))
    server = EmbeddedPostgres.start(data_dir)
    yield server
    server.close()
    shutil.rmtree(data_dir)


@asynccontextmanager
async def running(work: Callable[[], Any], *, every_s: float) -> AsyncIterator[None]:
    """Repeat a fault while the block runs."""

    async def loop() -> None:
        while True:
            await work()
            await asyncio.sleep(every_s)

    task = asyncio.create_task(loop())
    try:
        yield
    finally:
        task.cancel()
        ends = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(ends[0], asyncio.CancelledError), ends


@pytest.mark.slow
async def test_when_postgres_is_killed_shards_wait_and_resume_by_themselves(own_server: EmbeddedPostgres) -> None:
    await migrate_with_roles(own_server.dsn)
    # Half of the timers are due after the outage. So even on a slow machine the shards have work left when the server
    # is killed.
    later = "case when i > 1000 then interval '4 s' else interval '0' end"
    keys = await add_timers(own_server.dsn, 2_000, f"now() + i * interval '1 ms' + {later}")
    async with pool_of(own_server.dsn) as pool:
        shards = [await pool.start(place, 2) for place in range(2)]
        await pool.until_fired(300)
        assert await pool.count_fired() < len(keys)

        os.kill(own_server.postmaster_pid, signal.SIGKILL)
        await eventually(lambda: not own_server.is_running())
        assert await asyncio.to_thread(own_server.restart_if_dead)
        pool.db = await connect(own_server.dsn)
        more = await add_timers(own_server.dsn, 200, "now() + i * interval '1 ms'")
        await pool.until_empty()

        assert all(not task.done() for task in pool.work.values())
        assert await pool.count_fired() == len(keys) + len(more)
        assert await breaches(pool.db, keys + more) == {}
        assert sum(shard.stats.fired for shard in shards) <= len(keys) + len(more)
        pool.db.terminate()


async def test_a_shard_started_without_postgres_reports_this_once_and_begins_when_postgres_answers(
    pool: ShardPool,
) -> None:
    keys = await add_timers(pool.dsn, 10)
    server, _, database = pool.dsn.partition("?")[0].rpartition("/")
    elsewhere = await connect(pool.dsn.replace(f"{server}/{database}", f"{server}/postgres"))
    await elsewhere.execute(f"alter database {database} with allow_connections false")
    with capture_logs() as logs:
        shard = Shard(incarnation(), ShardSettings(retry_max_s=0.1, sweep_grace_s=0.5), as_role(pool.dsn, "shard"))
        pool.work[shard] = asyncio.create_task(shard.run())
        await eventually(lambda: bool(logs))

        await elsewhere.execute(f"alter database {database} with allow_connections true")
        await pool.until_fired(10)
        await eventually(lambda: len(logs) == 2)

    elsewhere.terminate()
    assert [(log["event"], log["loop"]) for log in logs] == [("turn failed", "beats"), ("going again", "beats")]
    assert await breaches(pool.db, keys) == {}


@pytest.mark.exhaustive
async def test_cut_connections_neither_lose_nor_double_a_timer(pool: ShardPool, client: asyncpg.Connection) -> None:
    shards = [await pool.start(place, 2, lease_s=3.0, horizon_s=0.5, fire_batch=20) for place in range(2)]
    keys: list[int] = []

    async def cut() -> None:
        await client.execute(CUT)

    async with running(cut, every_s=0.03):
        for _ in range(8):
            keys += await add_timers(pool.dsn, 200, "now() + (i % 100) * interval '8 ms'")
            await pool.until_fired(len(keys) - 350)
    await pool.until_empty()

    assert await pool.count_fired() == len(keys)
    assert await breaches(pool.db, keys) == {}
    assert all(not task.done() for task in pool.work.values())
    assert sum(shard.stats.fenced for shard in shards) < len(keys)


async def test_a_shard_survives_a_heartbeat_with_a_commit_longer_than_its_timeout(each_dsn: str) -> None:
    async with pool_of(each_dsn) as pool:
        shard = await pool.start(statement_timeout_s=0.5)
        await eventually(lambda: shard._heartbeat.began)
        await pool.db.execute(SLOW_COMMIT)

        async def is_slow() -> bool:
            return bool(await pool.db.fetchval("select is_called from public.commits"))

        await eventually(is_slow)
        since = time.monotonic()
        await eventually(lambda: shard._heartbeat.sent_s > since or pool.work[shard].done())

        assert not pool.work[shard].done(), "its holder was not ended"
        assert await pool.db.fetchval("select ended_why from shardclock.holders") is None


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_firing_with_an_unknown_outcome_is_sent_again(
    pool: ShardPool, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    lost = _lose_answers(monkeypatch, "fire_due", after=moment == "after")
    shard = await pool.start(lease_s=600.0)
    await pool.until_ready(shard)
    keys = await add_timers(pool.dsn, 100, "now() + interval '0.4 s'")
    rule = await add_schedule(pool.dsn, "R/PT1H", "now() + interval '0.4 s'")

    await pool.until_fired(101)
    await eventually(lambda: len(shard) == 0 and shard.stats.fired + shard.stats.fenced == 101)

    assert lost, "an answer was lost"
    assert (shard.stats.fenced > 0) == (moment == "after"), "the fired timers were gone"
    assert await pool.db.fetchval("select array_agg(occurrence) from shardclock.timers") == [2]
    assert await breaches(pool.db, [*keys, rule]) == {}


async def test_if_a_batch_of_timers_times_out_it_is_fired_in_smaller_parts(
    pool: ShardPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    real = vars(shard_module)["fire_due"]

    async def slow_with_many(session: Session, holder: int, firings: Sequence[Firing], **more: Any) -> Fired:
        sent.append(len(firings))
        if len(firings) > 10:
            raise StoreTooSlow("it takes too long")
        fired: Fired = await real(session, holder, firings, **more)
        return fired

    monkeypatch.setattr(shard_module, "fire_due", slow_with_many)
    await pool.until_ready(await pool.start(lease_s=600.0))
    keys = await add_timers(pool.dsn, 100, "now() + interval '0.4 s'")
    await pool.until_fired(100)

    assert max(sent) > 10
    assert await breaches(pool.db, keys) == {}


async def test_leases_whose_answer_was_lost_are_recalled_and_fire_on_time(
    pool: ShardPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = _lose_answers(monkeypatch, "claim_due", after=True)
    keys = await add_timers(pool.dsn, 100, "now() + interval '1 s'")

    await pool.start(lease_s=10.0, horizon_s=2.0)
    await pool.until_empty()

    assert lost, "an answer was lost"
    assert await breaches(pool.db, keys) == {}
    assert max(row["recorded_at"] - row["due_date"] for row in await pool.fired()) < timedelta(seconds=2), (
        "long before the lease runs out"
    )


def _lose_answers(monkeypatch: pytest.MonkeyPatch, name: str, *, after: bool) -> list[str]:
    """Lose the first answer to a statement, before or after Postgres has run the statement."""
    lost: list[str] = []
    real = vars(shard_module)[name]

    async def losing(*args: Any, **kwargs: Any) -> Any:
        if lost:
            return await real(*args, **kwargs)
        lost.append(name)
        if after:
            await real(*args, **kwargs)
        raise StoreUnavailable("lost on the way")

    monkeypatch.setattr(shard_module, name, losing)
    return lost


SECOND = "second-word"


@pytest.fixture
async def login(dsn: str) -> AsyncIterator[Login]:
    """Make a role for shards that logs in with a password."""
    async with guarded(dsn, "shardclock_shard") as login:
        yield login


def in_its_file(login: Login, place: Path, password: str) -> Dsn:
    (place / "dsn").write_text(login.named(password))
    return Dsn(file=place / "dsn")


def in_a_password_file(login: Login, place: Path, password: str) -> Dsn:
    """Write the password into libpq's password file; the DSN, without a password, never changes."""
    file = place / "pgpass"
    file.write_text(f"*:*:*:{login.user}:{password}\n")
    file.chmod(0o600)
    return Dsn(f"{login.named()}&passfile={quote(str(file))}")


@pytest.mark.parametrize("write", [in_its_file, in_a_password_file])
async def test_a_running_shard_reads_a_changed_password(
    login: Login, tmp_path: Path, write: Callable[[Login, Path, str], Dsn]
) -> None:
    async with pool_of(login.dsn) as pool:
        # Given a shard that fires timers
        shard = Shard(incarnation(), ShardSettings(retry_max_s=0.1), write(login, tmp_path, FIRST))
        await add_holder(login.dsn, shard.holder, 0, 1)
        pool.work[shard] = asyncio.create_task(shard.run())
        keys = await add_timers(login.dsn, 10)
        await pool.until_fired(10)

        # When the password of the shard's role is changed, and Postgres refuses the shard for a while
        await login.change(SECOND)
        await eventually(lambda: min(shard.stats.failures[loop] for loop in ("beats", "claims")) > 1)
        keys += await add_timers(login.dsn, 10)
        write(login, tmp_path, SECOND)

        # Then the same shard fires timers again.
        await pool.until_fired(20)
        holders = await query(login.dsn, "select holder, ended_at from shardclock.holders")
        assert [tuple(row) for row in holders] == [(shard.holder, None)]
    assert await intents(login.dsn) == {(key, "TRIGGERED"): 1 for key in keys}
    assert not await login.gets_in(FIRST)


async def test_a_clock_that_was_ahead_once_causes_one_retry_and_no_early_firing(
    pool: ShardPool, fire_calls: list[int]
) -> None:
    shard = await pool.start(lease_s=600.0)
    keys = await pool.lease(shard, 100, "now() + interval '1.5 s'")

    wrong = shard._clock.now() + timedelta(hours=1)
    shard._clock.observe(wrong, sent_s=time.monotonic())
    shard._queue.wake()
    await pool.until_fired(100)

    assert shard.stats.early == 100
    assert len(fire_calls) <= 4
    assert await breaches(pool.db, keys) == {}


async def test_a_clock_that_is_always_ahead_never_fires_early_and_never_spins(
    pool: ShardPool, fire_calls: list[int], claim_calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = vars(shard_module)["claim_due"]

    async def ahead(*args: Any, **kwargs: Any) -> ScanResult:
        taken: ScanResult = await real(*args, **kwargs)
        return replace(taken, server_time=taken.server_time + timedelta(seconds=5))

    monkeypatch.setattr(shard_module, "claim_due", ahead)
    shard = await pool.start(lease_s=600.0)
    await pool.until_ready(shard)
    keys = await add_timers(pool.dsn, 100, "now() + interval '1 s' + i * interval '2 ms'")
    await pool.until_fired(100)

    assert shard.stats.early > 0
    # After a wrong clock reading there may be an early try, and a second try that corrects the estimate. Then the queue
    # waits.
    assert len(fire_calls) <= 2 * len(claim_calls) + 100 + 5
    assert await breaches(pool.db, keys) == {}


async def test_a_clock_that_is_behind_fires_late_and_catches_up_with_the_next_answer(pool: ShardPool) -> None:
    shard = await pool.start(lease_s=600.0)
    keys = await pool.lease(shard, 10, "now() + interval '0.7 s'")

    shard._clock._samples.clear()  # This simulates a long time with only one slow answer from Postgres.
    shard._clock._samples.append((time.monotonic(), -time.monotonic()))
    shard._queue.wake()
    await pool.until_fired(10)

    assert await breaches(pool.db, keys) == {}
    assert max(row["recorded_at"] - row["due_date"] for row in await pool.fired()) < timedelta(seconds=1)
