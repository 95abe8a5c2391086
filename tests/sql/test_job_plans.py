"""Prove that the statements that begin and end runs read only due starts, although the tables have many other rows."""

from __future__ import annotations

import pytest

from tests.support.deliveries import HANDLER, add_deliveries, add_worker
from tests.support.factories import query, value
from tests.support.plans import prepare

JOBS, DUE = 10_000, 5


@pytest.fixture
async def crowded(each_dsn: str) -> str:
    """Return the DSN of a database with many jobs, of which five are due, and many older deliveries of a handler."""
    await query(
        each_dsn,
        "insert into shardclock.jobs (name, function, every_s) select 'job' || n, 'app:f', 60"
        " from generate_series(1, $1) n",
        JOBS,
    )
    await add_deliveries(each_dsn, 5_000, HANDLER, next_attempt_at="now() - interval '1 h'")
    for number in range(DUE):
        await add_deliveries(each_dsn, 1, f"job:job{7 + number}", tenant_id="'default'")
    await add_worker(each_dsn, 11)
    return each_dsn


@pytest.mark.parametrize("analyzed", [False, True])
async def test_a_begin_reads_the_due_starts_and_their_jobs(crowded: str, *, analyzed: bool) -> None:
    if analyzed:
        await query(crowded, "analyze shardclock.jobs, shardclock.deliveries")
    begin = await prepare(crowded, "begin_runs")
    arguments = ["11", "'20 s'", "1000", "10", "10", "null", "null", "'{}'", "'{}'", "null", "null"]

    deliveries = await begin.explain(*arguments, touched=True, table="deliveries")
    jobs = await begin.explain(*arguments, touched=True, table="jobs")
    await begin.connection.close()

    # Each delivery is found, locked and claimed; each job is read, locked and marked.
    assert DUE <= deliveries.rows <= 4 * DUE
    assert deliveries.indexes == {"deliveries_of_jobs", "deliveries_pkey"}
    assert DUE <= jobs.rows <= 4 * DUE
    assert jobs.indexes == {"jobs_pkey"}


@pytest.mark.parametrize("analyzed", [False, True])
async def test_a_begin_after_a_start_reads_later_starts_and_the_earlier_ones_of_their_jobs(
    crowded: str, *, analyzed: bool
) -> None:
    await add_deliveries(crowded, 2_000, "job:other", tenant_id="'default'", next_attempt_at="now() - interval '1 h'")
    if analyzed:
        await query(crowded, "analyze shardclock.jobs, shardclock.deliveries")
    begin = await prepare(crowded, "begin_runs")
    arguments = ["11", "'20 s'", "1000", "10", "10", "now() - interval '1 min'", "0", "'{}'", "'{}'", "null", "null"]

    deliveries = await begin.explain(*arguments, touched=True, table="deliveries")
    await begin.connection.close()

    assert DUE <= deliveries.rows <= 4 * DUE
    assert deliveries.indexes == {"deliveries_of_jobs", "deliveries_by_lane", "deliveries_pkey"}


@pytest.mark.parametrize("more", [0, 50, 200])
async def test_the_rows_that_a_begin_reads_grow_with_the_due_starts(crowded: str, more: int) -> None:
    for number in range(more):
        await add_deliveries(crowded, 1, f"job:job{1_000 + number}", tenant_id="'default'")
    begin = await prepare(crowded, "begin_runs")
    arguments = ["11", "'20 s'", "1000", "1000", "0", "null", "null", "'{}'", "'{}'", "null", "null"]

    deliveries = await begin.explain(*arguments, touched=True, table="deliveries")
    jobs = await begin.explain(*arguments, touched=True, table="jobs")
    await begin.connection.close()

    assert DUE + more <= deliveries.rows <= 4 * (DUE + more)
    assert DUE + more <= jobs.rows <= 4 * (DUE + more)


@pytest.mark.parametrize("analyzed", [False, True])
async def test_an_end_reads_its_own_rows(crowded: str, *, analyzed: bool) -> None:
    if analyzed:
        await query(crowded, "analyze shardclock.jobs, shardclock.deliveries")
    key = await value(crowded, "select min(timer_key) from shardclock.deliveries where target like 'job:%'")
    await query(
        crowded,
        "update shardclock.deliveries set claimed_by = 11, claimed_until = now() + interval '20 s', claims = 1"
        " where timer_key = $1",
        key,
    )
    await query(
        crowded,
        "update shardclock.jobs set state = 'RUNNING', run_timer_key = $1, run_claims = 1, run_holder = 11,"
        " run_attempt = 1, run_started_at = now() where name = 'job7'",
        key,
    )
    end = await prepare(crowded, "end_runs")
    arguments = [
        "11", "array['job7']", f"array[{key}]", "array[1]", "array[1]", "array['SUCCEEDED']", "array[false]",
        "array[null::interval]", "array[null::interval]", "array[5]", "array[null::text]", "array[null::text]",
        "array[null::jsonb]", "array[null::text]", "array[null::double precision]", "array[null::text]",
        "array[null::interval]", "null",
    ]  # fmt: skip

    deliveries = await end.explain(*arguments, touched=True, table="deliveries")
    jobs = await end.explain(*arguments, touched=True, table="jobs")
    await end.connection.close()

    assert 1 <= deliveries.rows <= 4
    assert deliveries.indexes == {"deliveries_pkey"}
    assert 1 <= jobs.rows <= 4
    assert jobs.indexes == {"jobs_pkey"}
