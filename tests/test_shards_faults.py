"""Postgres lost, connections cut, rows locked or poisoned, a clock that is wrong: nothing is lost, double or early."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from structlog.testing import capture_logs

from cluster.embedded import EmbeddedPostgres
from shards import shard as shard_module
from shards.settings import ShardSettings
from shards.shard import LOCKED_RETRY_S, Shard
from sql.claims import Taken
from sql.migrate import migrate
from sql.session import StoreUnavailable
from tests.crew import Crew, connect, crew_of, incarnation
from tests.store import add_schedule, add_timers
from tests.verdict import breaches
from tests.waiting import eventually

CUT = (
    "select pg_terminate_backend(pid) from pg_stat_activity"
    " where datname = current_database() and application_name like 'shardclock shard%' order by random() limit 1"
)


@pytest.fixture
async def crew(dsn: str) -> AsyncIterator[Crew]:
    """Give a crew on Postgres 18."""
    async with crew_of(dsn) as one:
        yield one


@pytest.fixture
async def client(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """Give a client's connection, which may keep a transaction open."""
    connection = await connect(dsn)
    yield connection
    connection.terminate()


@pytest.fixture
def own_server() -> Iterator[EmbeddedPostgres]:
    """Give a server of the test's own, which it may kill."""
    data_dir = Path(tempfile.mkdtemp(prefix="shardclock-test-"))
    server = EmbeddedPostgres.start(data_dir)
    yield server
    server.close()
    shutil.rmtree(data_dir)


@pytest.fixture
def fire_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record how many timers each fire statement was sent with."""
    return _recorded(monkeypatch, "fire_due", lambda _, __, firings, **___: len(firings))


@pytest.fixture
def claim_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the scope of each walk, with a + where it fires by itself."""
    return _recorded(monkeypatch, "take_due", lambda *args, fuse, **_: args[2].scope + "+" * fuse)


def _recorded(monkeypatch: pytest.MonkeyPatch, name: str, what: Callable[..., Any]) -> list[Any]:
    calls: list[Any] = []
    real = getattr(shard_module, name)

    async def recording(*args: Any, **kwargs: Any) -> Any:
        calls.append(what(*args, **kwargs))
        return await real(*args, **kwargs)

    monkeypatch.setattr(shard_module, name, recording)
    return calls


@asynccontextmanager
async def running(work: Callable[[], Any], *, every_s: float) -> AsyncIterator[None]:
    """Do some damage over and over while the block runs."""

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


# --- Postgres lost ---


@pytest.mark.slow
async def test_when_postgres_is_killed_shards_wait_and_resume_by_themselves(own_server: EmbeddedPostgres) -> None:
    await migrate(own_server.dsn)
    keys = await add_timers(own_server.dsn, 2_000, "now() + i * interval '1 ms'")
    async with crew_of(own_server.dsn) as crew:
        shards = [await crew.start(place, 2) for place in range(2)]
        await crew.until_fired(300)

        os.kill(own_server.postmaster_pid, signal.SIGKILL)
        await eventually(lambda: not own_server.is_running())
        assert await asyncio.to_thread(own_server.restart_if_dead)
        crew.db = await connect(own_server.dsn)
        assert await crew.count_fired() < len(keys), "it was killed in the middle of the work"
        more = await add_timers(own_server.dsn, 200, "now() + i * interval '1 ms'")
        await crew.until_empty()

        assert all(not task.done() for task in crew.work.values())
        assert await crew.count_fired() == len(keys) + len(more)
        assert await breaches(crew.db, keys + more) == {}
        assert sum(shard.tally.fired for shard in shards) <= len(keys) + len(more)
        crew.db.terminate()


async def test_a_shard_started_without_postgres_says_so_once_and_begins_when_it_comes(crew: Crew) -> None:
    keys = await add_timers(crew.dsn, 10)
    server, _, database = crew.dsn.partition("?")[0].rpartition("/")
    elsewhere = await connect(crew.dsn.replace(f"{server}/{database}", f"{server}/postgres"))
    await elsewhere.execute(f"alter database {database} with allow_connections false")
    with capture_logs() as logs:
        shard = Shard(incarnation(), ShardSettings(dsn=crew.dsn, retry_max_s=0.1, sweep_grace_s=0.5))
        crew.work[shard] = asyncio.create_task(shard.run())
        await eventually(lambda: bool(logs))

        await elsewhere.execute(f"alter database {database} with allow_connections true")
        await crew.until_fired(10)
        await eventually(lambda: len(logs) == 2)

    elsewhere.terminate()
    assert [(log["event"], log["loop"]) for log in logs] == [("turn failed", "beats"), ("going again", "beats")]
    assert await breaches(crew.db, keys) == {}


@pytest.mark.slow
async def test_connections_that_are_cut_while_it_works_lose_and_double_nothing(
    crew: Crew, client: asyncpg.Connection
) -> None:
    shards = [await crew.start(place, 2, lease_s=3.0, horizon_s=0.5, fire_batch=20) for place in range(2)]
    keys: list[int] = []

    async def cut() -> None:
        await client.execute(CUT)

    async with running(cut, every_s=0.03):
        for _ in range(8):
            keys += await add_timers(crew.dsn, 200, "now() + (i % 100) * interval '8 ms'")
            await crew.until_fired(len(keys) - 350)
    await crew.until_empty()

    assert await crew.count_fired() == len(keys)
    assert await breaches(crew.db, keys) == {}
    assert all(not task.done() for task in crew.work.values())
    assert sum(shard.tally.fenced for shard in shards) < len(keys)


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_firing_whose_outcome_is_unknown_is_decided_by_sending_it_again(
    crew: Crew, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    lost = _lose_answers(monkeypatch, "fire_due", after=moment == "after")
    keys = await add_timers(crew.dsn, 100, "now() + interval '0.4 s'")
    rule = await add_schedule(crew.dsn, "R/PT1H", "now() + interval '0.4 s'")

    shard = await crew.start(lease_s=600.0)
    await crew.until_fired(101)
    await eventually(lambda: len(shard) == 0 and shard.tally.fired + shard.tally.fenced == 101)

    assert lost, "an answer was lost"
    assert (shard.tally.fenced > 0) == (moment == "after"), "what had fired was gone"
    assert await crew.db.fetchval("select array_agg(occurrence) from shardclock.timers") == [2]
    assert await breaches(crew.db, [*keys, rule]) == {}


async def test_leases_whose_answer_was_lost_are_recalled_and_fire_on_time(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = _lose_answers(monkeypatch, "take_due", after=True)
    keys = await add_timers(crew.dsn, 100, "now() + interval '1 s'")

    await crew.start(lease_s=10.0, horizon_s=2.0)
    await crew.until_empty()

    assert lost, "an answer was lost"
    assert await breaches(crew.db, keys) == {}
    assert max(row["recorded_at"] - row["due_date"] for row in await crew.fired()) < timedelta(seconds=2), (
        "long before the lease runs out"
    )


def _lose_answers(monkeypatch: pytest.MonkeyPatch, name: str, *, after: bool) -> list[str]:
    """Lose the first answer to a statement, before or after it has done its work."""
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


# --- Poison ---


async def test_a_timer_whose_record_is_refused_fails_alone_on_both_paths(crew: Crew, claim_calls: list[str]) -> None:
    keys = await add_timers(crew.dsn, 200, "now() + i % 3 * interval '0.3 s'")  # some overdue, some in memory
    poison = {keys[2], keys[100], keys[-1]}
    await _refuse_records_of(crew, poison)

    shard = await crew.start()
    await crew.until_fired(197)
    await eventually(lambda: shard.tally.refused == 3)

    assert await breaches(crew.db, keys) == {}
    assert {row["timer_key"] for row in await crew.fired()} == set(keys) - poison
    assert "own+" in claim_calls, "it tried the short way"
    assert "own" in claim_calls, "it took the long way, where one bad row fails alone"

    # When the cause is gone, it fires after all.
    await crew.db.execute("drop trigger poison on shardclock.command_log")
    await crew.db.execute("update shardclock.timers set claimed_by = null, claimed_until = null")
    await crew.until_empty()
    assert await breaches(crew.db, keys) == {}


async def test_a_schedule_that_can_not_be_read_fails_alone_and_is_set_aside(crew: Crew) -> None:
    keys = await add_timers(crew.dsn, 100, "now() + interval '0.3 s'")
    poison = await add_schedule(crew.dsn, "R/often", "now() + interval '0.3 s'")
    overdue = await add_schedule(crew.dsn, "R/seldom", name="'seldom'")
    healthy = await add_schedule(crew.dsn, name="'healthy'")

    shard = await crew.start()
    await crew.until_fired(101)
    await eventually(lambda: shard.tally.refused == 2)

    assert {row["timer_key"] for row in await crew.fired()} == {*keys, healthy}
    aside = await crew.db.fetch("select timer_key from shardclock.timer_history where state = 'PAUSED'")
    assert {row["timer_key"] for row in aside} == {poison, overdue}
    whys = await crew.db.fetch("select detail ->> 'refused' as why from shardclock.command_log where intent = 'PAUSED'")
    assert all("has no valid period" in row["why"] for row in whys)
    assert len(whys) == 2


async def test_a_schedule_that_sql_wrote_down_is_planned_by_a_shard_and_then_fires_on_its_grid(crew: Crew) -> None:
    key = await crew.db.fetchval("select shardclock.schedule_timer(schedule => '* * * * * *', name => 'tick')")
    never = await crew.db.fetchval("select shardclock.schedule_timer(schedule => '0 0 30 2 *', name => 'never')")

    shard = await crew.start()
    await crew.until_fired(2)

    first, second = (await crew.fired())[:2]
    assert (first["timer_key"], first["occurrence"], second["occurrence"]) == (key, 1, 2)
    assert first["due_date"].microsecond == 0
    assert second["due_date"] - first["due_date"] == timedelta(seconds=1)
    assert (shard.tally.planned, shard.tally.refused) == (1, 1)
    aside = await crew.db.fetchrow("select timer_key, detail from shardclock.command_log where intent = 'PAUSED'")
    assert aside is not None
    assert aside["timer_key"] == never
    assert "never occurs" in aside["detail"]


async def test_a_poison_timer_is_left_alone_until_its_lease_ends(crew: Crew, fire_calls: list[int]) -> None:
    keys = await add_timers(crew.dsn, 64, "now() + interval '0.2 s'")
    await _refuse_records_of(crew, {keys[20]})

    shard = await crew.start()
    await crew.until_fired(63)
    await eventually(lambda: shard.tally.refused == 1)
    witness = await add_timers(crew.dsn, 5, "now() + interval '0.3 s'")
    await crew.until_fired(68)

    # 64, then halves of halves down to 1 and back up: two statements for each halving. Then the witnesses'.
    assert len(fire_calls) <= 1 + 2 * 6 + len(witness)
    assert shard.tally.refused == 1


# --- Locks ---


@pytest.mark.parametrize("outcome", ["rollback", "commit"])
async def test_a_client_that_locks_a_due_timer_delays_nobody_else(
    crew: Crew, client: asyncpg.Connection, fire_calls: list[int], outcome: str
) -> None:
    keys = await add_timers(crew.dsn, 100, "now() + interval '0.4 s'")
    shard = await crew.start(lease_s=600.0)
    await crew.until_held(shard, 100)
    transaction = client.transaction()
    await transaction.start()
    await client.execute("select shardclock.cancel_timer($1)", keys[0])

    # Then all others fire; the locked one is tried again now and then, without hurry.
    await crew.until_fired(99)
    others = await crew.fired()
    assert max(row["recorded_at"] - row["due_date"] for row in others) < timedelta(seconds=1)
    assert keys[0] not in {row["timer_key"] for row in others}
    await eventually(lambda: shard.tally.locked >= 1)
    tried_before, started = len(fire_calls), time.monotonic()
    await eventually(lambda: len(fire_calls) >= tried_before + 8)
    assert time.monotonic() - started >= 7 * LOCKED_RETRY_S

    if outcome == "rollback":
        await transaction.rollback()
        await crew.until_fired(100)
    else:
        await transaction.commit()
        await eventually(lambda: shard.tally.fenced == 1)
    assert len(shard) == 0
    assert await crew.count_fired() == (100 if outcome == "rollback" else 99)
    assert await breaches(crew.db, keys) == {}


async def test_a_client_that_locks_an_overdue_timer_delays_nobody_else(crew: Crew, client: asyncpg.Connection) -> None:
    keys = await add_timers(crew.dsn, 100)
    transaction = client.transaction()
    await transaction.start()
    await client.execute("select shardclock.reschedule_timer($1, delay => 'PT0.2S')", keys[0])

    await crew.start()
    await crew.until_fired(99)
    await transaction.commit()
    await crew.until_fired(100)

    assert (await crew.fired())[-1]["timer_key"] == keys[0]
    assert await breaches(crew.db, keys) == {}


HANGS = (
    "select query_start from pg_stat_activity where datname = current_database()"
    " and application_name like 'shardclock shard claims%' and wait_event_type = 'Lock'"
)


async def test_a_shard_whose_claims_hang_goes_on_giving_signs_of_life(crew: Crew, client: asyncpg.Connection) -> None:
    shard = await crew.start()
    transaction = client.transaction()
    await transaction.start()
    await client.execute("lock table shardclock.timers in access exclusive mode")

    async def hangs() -> bool:
        return await crew.db.fetchval(HANGS) is not None

    async def is_heard() -> bool:
        text = "select seen_at > $2::timestamptz + interval '1.5 s' from shardclock.holders where holder = $1"
        return bool(await crew.db.fetchval(text, shard.holder, since))

    await eventually(hangs)
    since = await crew.db.fetchval(HANGS)
    await eventually(is_heard)

    assert await crew.db.fetchval(HANGS) == since, "all that while one claim waited"
    await transaction.rollback()


# --- A wrong clock ---


async def test_a_clock_that_was_ahead_once_leads_to_one_retry_and_nothing_early(
    crew: Crew, fire_calls: list[int]
) -> None:
    keys = await add_timers(crew.dsn, 100, "now() + interval '1.5 s'")
    shard = await crew.start(lease_s=600.0)
    await crew.until_held(shard, 100)

    wrong = shard._clock.now() + timedelta(hours=1)
    shard._clock.observe(wrong, sent_at=time.monotonic())
    shard._queue.wake()
    await crew.until_fired(100)

    assert shard.tally.early == 100
    assert len(fire_calls) <= 4
    assert await breaches(crew.db, keys) == {}


async def test_a_clock_that_is_always_ahead_never_fires_early_and_never_spins(
    crew: Crew, fire_calls: list[int], claim_calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = vars(shard_module)["take_due"]

    async def ahead(*args: Any, **kwargs: Any) -> Taken:
        taken: Taken = await real(*args, **kwargs)
        return replace(taken, server_time=taken.server_time + timedelta(seconds=5))

    monkeypatch.setattr(shard_module, "take_due", ahead)
    keys = await add_timers(crew.dsn, 100, "now() + interval '1 s' + i * interval '2 ms'")

    shard = await crew.start(lease_s=600.0)
    await crew.until_fired(100)

    assert shard.tally.early > 0
    # Each wrong answer may cost a try and the one that finds the truth; then the queue waits again.
    assert len(fire_calls) <= 2 * len(claim_calls) + 100 + 5
    assert await breaches(crew.db, keys) == {}


async def test_a_clock_that_is_behind_fires_late_and_catches_up_with_the_next_answer(crew: Crew) -> None:
    keys = await add_timers(crew.dsn, 10, "now() + interval '0.7 s'")
    shard = await crew.start(lease_s=600.0)
    await crew.until_held(shard, 10)

    shard._clock._samples.clear()  # as if nothing had been heard for long, but an answer that was slow
    shard._clock._samples.append((time.monotonic(), -time.monotonic()))
    shard._queue.wake()
    await crew.until_fired(10)

    assert await breaches(crew.db, keys) == {}
    assert max(row["recorded_at"] - row["due_date"] for row in await crew.fired()) < timedelta(seconds=1)


async def _refuse_records_of(crew: Crew, keys: set[int]) -> None:
    listed = ", ".join(map(str, keys))
    await crew.db.execute(
        "create function shardclock.poison() returns trigger language plpgsql as"
        " $$ begin raise exception 'poison %', new.timer_key; end $$"
    )
    await crew.db.execute(
        "create trigger poison before insert on shardclock.command_log for each row"
        f" when (new.timer_key in ({listed})) execute function shardclock.poison()"
    )
