"""Prove that the short statement of a test cluster begins a run exactly as a worker does, or begins nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta

import asyncpg
import pytest

from shardclock_server.jobs.states import RunOutcome
from shardclock_server.sql.jobs.runs import Begun, BegunRun
from tests.support.factories import HolderClient, query, value
from tests.support.job_runs import LEASE_S, JobWorker, declare, fire
from tests.support.jobs import job_spec

ASK = "select shardclock.run_job('refresh')"
# The rows that the begin of a run writes, without the columns that read the clock or a sequence.
WRITTEN = """
    select to_jsonb(j) - array['run_started_at', 'last_start', 'changed_at'] as row from shardclock.jobs j
    union all
    select to_jsonb(d) - 'claimed_until' from shardclock.deliveries d
    union all
    select to_jsonb(r) - 'started_at' from shardclock.job_runs r
    union all
    select to_jsonb(l) - array['position', 'recorded_at'] from shardclock.command_log l
    order by 1
"""


class Undone(Exception):
    """Ends a transaction without its changes."""


async def begin_only_start(worker: JobWorker) -> Begun | None:
    lease = timedelta(seconds=LEASE_S)
    row = await worker.session.row("begin_only_start", holder=worker.holder, lease=lease, now=None)
    return Begun.alone(row[0], BegunRun._make(row[1:])) if row else None


async def written(worker: JobWorker, begin: Callable[[], Awaitable[Begun | None]]) -> tuple[Begun | None, list[str]]:
    """Begin runs in a transaction; return the result and the rows of the tables, and undo the changes."""
    begun, rows = None, list[asyncpg.Record]()
    with suppress(Undone):
        async with worker.session.transaction() as connection:
            begun = await begin()
            rows = await connection.fetch(WRITTEN)
            raise Undone
    return begun, [row["row"] for row in rows]


async def start(dsn: str, shard: HolderClient) -> None:
    await value(dsn, ASK)
    await fire(shard)


@pytest.mark.parametrize("overlap", ["skip", "replace"])
async def test_the_only_start_begins_in_the_same_way_as_on_a_worker(
    dsn: str, shard: HolderClient, overlap: str
) -> None:
    await declare(dsn, job_spec(overlap=overlap))
    await start(dsn, shard)
    async with JobWorker(dsn, 11) as worker:
        short, short_rows = await written(worker, lambda: begin_only_start(worker))
        full, full_rows = await written(worker, worker.begin)

    assert short is not None
    assert full is not None
    assert (short.runs, short_rows) == (full.runs, full_rows)
    assert (short.saturated, short.short, short.queued, short.dropped) == (False, False, False, 0)


@pytest.mark.parametrize(
    "change",
    [
        ASK,
        "update shardclock.jobs set overlap = 'queue'",
        "update shardclock.jobs set withdrawn_at = now()",
        "update shardclock.jobs set not_before = now() + interval '1 minute'",
        """update shardclock.jobs set policy = policy || '{"num_gpus": 1}'""",
        "select shardclock.disable_job('refresh')",
        "update shardclock.identity set held_why = 'we look at it'",
        "delete from shardclock.jobs",
    ],
)
async def test_a_start_that_depends_on_other_starts_or_runs_is_left_to_the_worker(
    dsn: str, shard: HolderClient, change: str
) -> None:
    await declare(dsn, job_spec())
    await start(dsn, shard)
    await query(dsn, change)
    await fire(shard)
    async with JobWorker(dsn, 11) as worker:
        assert await begin_only_start(worker) is None


async def test_a_start_during_a_run_and_a_further_attempt_are_left_to_the_worker(dsn: str, shard: HolderClient) -> None:
    await declare(dsn, job_spec(max_retries=3))
    await start(dsn, shard)
    async with JobWorker(dsn, 11) as worker:
        run = await worker.one()
        assert await begin_only_start(worker) is None
        await worker.end(run, RunOutcome.FAILED, delay_s=0.0, reason="again")
        assert await begin_only_start(worker) is None
        assert (await worker.one()).attempt == 2
