"""Environment variables connect handlers of a test cluster to this cluster, never to a live cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

import shardclock
from shardclock_server.cluster.testing import cluster
from tests.support import ROOT
from tests.support.doc_blocks import blocks
from tests.support.factories import BOUND_S, query

LIVE = {"SHARDCLOCK_API_URL": "http://127.0.0.1:1", "SHARDCLOCK_DSN_FILE": "/run/live-dsn"}
NAMES = ("SHARDCLOCK_DSN", "SHARDCLOCK_DSN_FILE", "SHARDCLOCK_API_URL")
WITHOUT_HTTPX2 = """
import asyncio, sys
sys.modules["httpx2"] = None
from shardclock_server.cluster.testing import cluster

async def main():
    async with cluster() as sc:
        sc.client

asyncio.run(main())
"""
found: list[object] = []


@shardclock.on_timer("tests.next")
async def schedule_next(_: shardclock.Timer) -> None:
    async with shardclock.AsyncClient() as client:
        await client.schedule(delay="PT1H", name="from the handler")


@shardclock.on_timer("tests.plain_next")
def schedule_plainly(_: shardclock.Timer) -> None:
    with shardclock.Client() as client:
        client.schedule(delay="PT1H", name="from the handler")


@shardclock.on_timer("tests.sql")
async def read_database(_: shardclock.Timer) -> None:
    connection = await asyncpg.connect(os.environ["SHARDCLOCK_DSN"], timeout=BOUND_S)
    try:
        found.append(await connection.fetchval("select current_database()", timeout=BOUND_S))
    finally:
        await connection.close(timeout=BOUND_S)


@pytest.fixture(autouse=True)
def live(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name a live cluster in the environment of the tests."""
    monkeypatch.delenv("SHARDCLOCK_DSN", raising=False)
    for name, value in LIVE.items():
        monkeypatch.setenv(name, value)


def named() -> dict[str, str]:
    """Return the variables that name a cluster."""
    return {name: os.environ[name] for name in NAMES if name in os.environ}


@pytest.mark.parametrize("target", ["tests.next", "tests.plain_next"])
async def test_a_client_without_a_url_in_a_handler_reaches_the_test_s_cluster(target: str) -> None:
    async with cluster(app=__name__) as sc:
        await sc.client.schedule(delay="PT1S", target=target)
        await sc.advance("PT2S")

        assert (await sc.client.get(name="from the handler")).name == "from the handler"
        assert await sc.deliveries() == []


async def test_handlers_find_the_dsn_of_the_tests_database_in_the_same_variable_as_under_up() -> None:
    found.clear()
    async with cluster(app=__name__) as sc:
        await sc.client.schedule(delay="PT1S", target="tests.sql")
        await sc.advance("PT2S")

        assert [f"/{name}?" in sc.dsn for name in found] == [True]
        assert named() == {"SHARDCLOCK_DSN": sc.dsn, "SHARDCLOCK_API_URL": sc.url}
    assert named() == LIVE


async def test_the_page_s_handler_reads_the_database_and_schedules_the_next_timer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = [it for it in blocks() if it.where.startswith("docs/handlers.md") and it.kind == "python"]
    (tmp_path / "reminders_of_page.py").write_text(page[1].text)
    monkeypatch.syspath_prepend(str(tmp_path))

    async with cluster(app="reminders_of_page") as sc:
        await query(sc.dsn, "create table orders as select 42 as number, false as paid")
        await sc.client.schedule(delay="PT1S", target="order.remind", payload={"order": 42})
        await sc.advance("P1DT2S")
        again = await sc.client.get(name="remind-42")
        await query(sc.dsn, "update orders set paid = true")
        await sc.advance("P3D")

        fired = [it.due_date for it in await sc.log() if it.intent == "TRIGGERED"]
        assert len(fired) == 3
        assert fired[-1] == again.due_date


async def test_while_several_clusters_are_open_a_client_without_a_url_is_refused() -> None:
    async with cluster() as one:
        async with cluster() as other:
            with pytest.raises(ValueError, match=r"'2 test clusters are open: give the client sc\.url' is refused"):
                shardclock.AsyncClient()
            with pytest.raises(Exception, match="DSN"):
                await asyncpg.connect(os.environ["SHARDCLOCK_DSN"], timeout=BOUND_S)
            await other.client.schedule(delay="PT1H", name="other's")
        assert named() == {"SHARDCLOCK_DSN": one.dsn, "SHARDCLOCK_API_URL": one.url}
    assert named() == LIVE


def test_a_missing_extra_is_reported_in_one_sentence_and_the_end_of_a_cluster_prints_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_HTTPX2],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "client")])},
        capture_output=True,
        text=True,
        timeout=4 * BOUND_S,
        check=False,
    )

    assert done.stdout == ""
    said = "sc.client needs httpx2, which is not installed; install it: pip install 'shardclock-client[http]'"
    assert done.stderr.splitlines()[-1] == f"ImportError: {said}"
    assert "shardclock/http" not in done.stderr
