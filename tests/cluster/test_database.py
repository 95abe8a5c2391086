"""`up` starts although its embedded Postgres dies or is restarted meanwhile, and a signal interrupts the start."""

from __future__ import annotations

import asyncio
import fcntl
import signal
from pathlib import Path

import psutil
import pytest

from shardclock_server.cli import INTERRUPTED
from shardclock_server.cluster import database
from shardclock_server.cluster.database import Database, open_database, wait_until_ready
from shardclock_server.cluster.settings import Settings, load_settings
from shardclock_server.embedded.modes import open_lock
from shardclock_server.embedded.server import EmbeddedPostgres
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.migrate import MigrationResult, migrate
from tests.support.cluster_process import ClusterProcess
from tests.support.factories import BOUND_S
from tests.support.program import PROGRAM, until

pytestmark = pytest.mark.slow


@pytest.fixture
def settings(place: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("SHARDCLOCK_DATA_DIR", str(place / "data"))
    monkeypatch.delenv("SHARDCLOCK_DSN", raising=False)
    return load_settings()


def kill(server: EmbeddedPostgres) -> None:
    postmaster = psutil.Process(server.postmaster_pid)
    postmaster.send_signal(signal.SIGKILL)
    psutil.wait_procs([postmaster], timeout=BOUND_S)


def test_a_postgres_that_is_killed_before_its_migration_is_started_again(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    victims = [EmbeddedPostgres.at(settings.data_dir)]

    async def migrate_late(dsn: str) -> MigrationResult:
        while victims:
            kill(victims.pop())
        return await migrate(dsn)

    monkeypatch.setattr(database, "migrate", migrate_late)

    with open_database(settings) as opened:
        assert opened.is_new
        assert opened.is_there


async def test_a_postgres_that_is_killed_before_the_check_of_its_schema_is_started_again(
    settings: Settings,
) -> None:
    server = EmbeddedPostgres.start(settings.data_dir)
    try:
        await migrate(server.dsn)
        kill(server)
        told: list[str] = []

        async with asyncio.timeout(BOUND_S):
            await wait_until_ready(Database(Dsn(server.dsn), server), tell=told.append)

        assert [" does not answer " in it for it in told] == [True]
    finally:
        server.close()


def test_a_signal_ends_an_up_that_waits_for_the_start_of_its_postgres(place: Path) -> None:
    data = place / "data"
    data.mkdir()
    with open_lock(data / "server.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        up = ClusterProcess(place, program=PROGRAM, SHARDCLOCK_LOCAL="true")
        try:
            waiting = psutil.Process(up.process.pid)
            until(lambda: lock.name in [file.path for file in waiting.open_files()], "it to wait for the lock")

            up.process.send_signal(signal.SIGTERM)

            assert up.process.wait(BOUND_S) == INTERRUPTED, up.said
        finally:
            up.end()
