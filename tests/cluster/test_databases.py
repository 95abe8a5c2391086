"""Each test gets a database. If a test run is killed, the next test run stops its Postgres server."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from shardclock_server.cluster.testing import cluster, databases
from shardclock_server.cluster.testing.databases import DATA, stop_abandoned
from shardclock_server.embedded.server import EmbeddedPostgres
from shardclock_server.sql.session import StoreUnavailable
from tests.support import ROOT
from tests.support.factories import BOUND_S

KILLED = """
import asyncio, os, signal
from shardclock_server.cluster.testing import cluster

async def main():
    async with cluster():
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.mark.slow
def test_the_server_of_a_killed_test_is_stopped_and_its_files_are_removed(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    killed = subprocess.run([sys.executable, "-c", KILLED], cwd=ROOT, timeout=4 * BOUND_S, check=False)
    assert killed.returncode == -9
    (left,) = place.glob("shardclock-testing-*")
    assert EmbeddedPostgres.at(left / DATA).is_running()

    stop_abandoned()

    assert list(place.glob("shardclock-testing-*")) == []


# The template database of one day


def day(number: int) -> datetime:
    """Return a moment on a day that no other test's clock starts on."""
    return datetime(2031, 1, number, 8, tzinfo=UTC)


async def test_simultaneous_tests_on_the_same_day_get_separate_databases() -> None:
    async def begun() -> str:
        async with cluster(now=day(1)) as made:
            return made.dsn

    assert len(set(await asyncio.gather(*(begun() for _ in range(3))))) == 3


async def test_an_incomplete_template_is_created_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object) -> None:
        raise StoreUnavailable("away")

    with monkeypatch.context() as away:
        away.setattr(databases, "ensure_log_partitions", broken)
        with pytest.raises(StoreUnavailable):
            async with cluster(now=day(2)):
                raise AssertionError("there is no database")

    async with cluster(now=day(2)) as made:
        assert made.now() == day(2)
