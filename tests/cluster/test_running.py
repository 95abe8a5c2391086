"""`shardclock up` fires timers, stops in order, and survives the death of any of its processes."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from shardclock.log.async_reading import read_log
from shardclock_server.demo.verdict import judge
from shardclock_server.embedded.server import EmbeddedPostgres
from shardclock_server.service.bulk_import import ImportReport, import_lines
from shardclock_server.sql.session import Session
from tests.support.cluster_process import STOP_S, ClusterProcess
from tests.support.connections import AWAY
from tests.support.factories import query, sql
from tests.support.program import run, until
from tests.support.roles import as_role, migrate_with_roles

FIRE_S = 45.0
TIMERS = 1_500

# Longer than the time between two sweeps of a shard over all slots.
WAITED = (
    "select count(*) from shardclock.presence where shardclock.hold_reason(identity) is not null"
    " and identity = 'staging' and seen_at > started_at + interval '5 s'"
)

pytestmark = pytest.mark.ray


@pytest.fixture
def up(place: Path) -> Iterator[ClusterProcess]:
    """Run `shardclock up` on an embedded Postgres."""
    up = ClusterProcess(place)
    try:
        up.until_running()
        yield up
    finally:
        up.end()


def test_a_cluster_fires_and_releases_all_claims_when_a_signal_stops_it(up: ClusterProcess) -> None:
    until(up.serving, "two shards")
    run("schedule", "--in", "PT0.2S", "--name", "soon", environment=up.environment)
    run("schedule", "--at", "2040-01-01T00:00:00Z", "--name", "waits", environment=up.environment)
    ended = lambda: run("list", "--state", "triggered", "--json", environment=up.environment).json["timers"]  # noqa: E731
    assert [timer["name"] for timer in until(ended, "the timer to fire")] == ["soon"]
    run("schedule", "--in", "PT1.9S", "--name", "claimed", environment=up.environment)

    ray_dir = up.ray_dir()

    begin = time.monotonic()
    up.process.send_signal(signal.SIGTERM)
    assert up.process.wait(STOP_S) == 0, up.said
    print(f"stopped in {time.monotonic() - begin:.1f} s")  # noqa: T201 - the figure, under -s

    assert up.processes() == []
    assert not ray_dir.exists()
    assert "stopping: handing claims back" in up.said.splitlines()
    assert "Traceback" not in up.said
    assert up.status()["shards"] == []
    claims = run("show", "--name", "waits", "--json", environment=up.environment).json["timer"]
    assert (claims["state"], claims["holder"]) == ("PENDING", None)


@pytest.mark.exhaustive
def test_all_processes_of_up_end_when_up_is_killed(up: ClusterProcess) -> None:
    until(up.serving, "two shards")

    ray_dir = up.ray_dir()

    begin = time.monotonic()
    up.process.kill()
    up.process.wait()
    until(lambda: not up.processes(), "the host, Ray and Postgres to end", within_s=30)
    print(f"all ended in {time.monotonic() - begin:.1f} s")  # noqa: T201 - the figure, under -s

    assert not ray_dir.exists()
    assert up.status()["shards"] == [], "its host handed back"


@pytest.mark.exhaustive
def test_up_waits_for_a_database_that_does_not_run_at_the_start_and_reports_this(place: Path) -> None:
    postgres = EmbeddedPostgres.start(place / "named")
    asyncio.run(migrate_with_roles(postgres.dsn))
    postgres.close()
    up = ClusterProcess(place, SHARDCLOCK_DSN=as_role(postgres.dsn, "shard"))
    try:
        until(lambda: up.said.count("trying again in") > 1, "it to say that it tries again")
        assert "does not answer" in up.said
        assert up.process.poll() is None, up.said

        postgres = EmbeddedPostgres.start(place / "named")
        up.until_running()
        until(up.serving, "two shards")
    finally:
        up.end()
        postgres.close()


@pytest.mark.exhaustive
def test_a_copy_of_a_database_fires_nothing_until_it_is_released(place: Path) -> None:
    postgres = EmbeddedPostgres.start(place / "named")
    sql(postgres.dsn, "create database production")
    production, copy = (postgres.dsn.replace("/postgres?", f"/{name}?") for name in ("production", "staging"))
    asyncio.run(migrate_with_roles(production))
    try:
        # Given a database on which a cluster has run, and a copy of this database with a due timer
        up = ClusterProcess(place, SHARDCLOCK_DSN=as_role(production, "shard"), SHARDCLOCK_IDENTITY="prod")
        try:
            up.until_running()
            until(up.serving, "two shards")
            assert up.status()["hold"] is None
        finally:
            up.end()
        scheduling = up.environment | {"SHARDCLOCK_DSN": as_role(production, "scheduler")}
        assert run("schedule", "--in", "PT0S", "--name", "reminder", environment=scheduling).code == 0
        sql(postgres.dsn, "create database staging template production strategy file_copy")

        # When a cluster runs on the copy
        up = ClusterProcess(
            place, SHARDCLOCK_DSN=as_role(copy, "shard"), SHARDCLOCK_IDENTITY="staging", SHARDCLOCK_SHARDS="3"
        )
        try:
            up.until_running()
            assert "ON HOLD: the database is a copy" in up.said

            # Then the cluster stands by, and fires no timer,
            until(lambda: sql(copy, WAITED)[0][0] == 2, "two shards to have been on hold for a while")
            status = up.status()
            assert "is a copy" in status["hold"]
            assert (status["overdue"], status["leader_alive"], status["shards_wanted"]) == (1, False, 2)
            assert asyncio.run(_fired(copy)) == 0
            # until an operator releases the copy.
            assert run("release", "--yes", environment=up.environment).code == 0
            until(lambda: asyncio.run(_fired(copy)) == 1, "the timer to fire")
            until(lambda: {it["shard"] for it in up.status()["shards"]} == {0, 1, 2}, "as many shards as it was told")
            assert up.status()["hold"] is None
            assert '"event": "on hold"' in up.said
            assert '"event": "released"' in up.said
        finally:
            up.end()
        assert asyncio.run(_fired(production)) == 0
    finally:
        postgres.close()


def _one(up: ClusterProcess, word: str) -> psutil.Process:
    return until(lambda: up.processes(word), word)[0]  # type: ignore[no-any-return]


# Shards, the coordinator and the GCS are among the victims of tests/chaos/test_chaos.py.
VICTIMS: dict[str, Callable[[ClusterProcess], psutil.Process]] = {
    "the raylet": lambda up: _one(up, "raylet "),
    "the host": lambda up: _one(up, "shardclock_server.cluster.host"),
    "the postmaster": lambda up: psutil.Process(int((up.place / "data/pgdata/postmaster.pid").read_text().split()[0])),
}
ENDS_THE_HOST = ("the raylet", "the host")


@pytest.mark.exhaustive
def test_each_timer_fires_once_whichever_process_is_killed(up: ClusterProcess) -> None:
    until(up.serving, "two shards")
    keeper = EmbeddedPostgres.start(up.place / "data")
    try:
        report = asyncio.run(_schedule(keeper.dsn, seconds=35))
        for name, find in VICTIMS.items():
            victim, host = find(up), _one(up, "shardclock_server.cluster.host")
            begin = time.monotonic()
            victim.kill()
            until(partial(_is_gone, victim), f"{name} to die")
            if name in ENDS_THE_HOST:
                until(partial(_is_gone, host), f"the host to end after {name}")
            fired = asyncio.run(_fired(keeper.dsn))
            until(
                partial(_has_fired_more, keeper.dsn, fired),
                f"firing to go on after {name}",
                within_s=FIRE_S,
            )
            until(up.is_whole, f"the cluster to be whole after {name}", within_s=2 * FIRE_S)
            print(f"killed {name}: whole again within {time.monotonic() - begin:.1f} s")  # noqa: T201 - the figure, under -s
        until(lambda: asyncio.run(_fired(keeper.dsn)) >= TIMERS, "the rest to fire", within_s=2 * FIRE_S)
        records = asyncio.run(_records(keeper.dsn))
        verdict = judge(report.timers, records, None)
        assert verdict.holds, verdict
        assert "Traceback" not in re.sub(r'\{"event".*', "", up.said)
    finally:
        keeper.close()


def _is_gone(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _has_fired_more(dsn: str, than: int) -> bool:
    return asyncio.run(_fired(dsn)) > than


async def _schedule(dsn: str, *, seconds: float) -> ImportReport:
    report = ImportReport()
    lines = [(i + 1, json.dumps({"delay": f"PT{1 + i * seconds / TIMERS:.3f}S"}).encode()) for i in range(TIMERS)]
    async with Session(dsn, application="test") as session:
        await import_lines([session], lines, report, keep=True)
    return report


async def _fired(dsn: str) -> int:
    try:
        rows = await query(dsn, "select count(*) from shardclock.command_log where intent = 'TRIGGERED'")
    except AWAY:  # the postmaster is among the victims
        return 0
    return int(rows[0][0])


async def _records(dsn: str) -> list[Any]:
    async with Session(dsn, application="test") as session:
        return list(await read_log(session, limit=1_000_000))
