"""A look tells of starts that it did not begin, and the end of a short run tells that the run was called."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shardclock_server.jobs.states import RunOutcome
from shardclock_server.sql.jobs.runs import advance_runs
from tests.support.factories import HolderClient, query
from tests.support.job_runs import JobWorker, declare, fire, runs_of, said_of
from tests.support.jobs import job_spec

# One more start of the job; as its rule plans it, if it has that name.
PLANNED = """
    insert into shardclock.timers (due_date, target, name)
    values (now(), 'job:refresh', $1)
"""


@pytest.fixture
def dsn(each_dsn: str) -> str:
    """Name an empty database on each version."""
    return each_dsn


async def test_a_look_reads_the_first_starts_and_says_that_there_may_be_more(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    specs = [job_spec(f"job{number}", every_s=60.0) for number in range(5)]
    for spec in specs:
        await declare(dsn, *specs[: specs.index(spec) + 1])
        await fire(shard)

    first = await worker.begin(look=2)
    rest = await worker.begin(look=10)

    assert ([run.job for run in first.runs], first.saturated) == (["job0", "job1"], True)
    assert (len(rest.runs), rest.saturated) == (3, False)


@pytest.mark.parametrize(
    ("places", "short"), [((3, 2), (False, False)), ((2, 2), (True, False)), ((0, 1), (True, True))]
)
async def test_a_look_says_of_which_places_there_were_too_few(
    dsn: str, shard: HolderClient, worker: JobWorker, places: tuple[int, int], short: tuple[bool, bool]
) -> None:
    plain = [job_spec(f"plain{number}", every_s=60.0) for number in range(3)]
    large = [job_spec(f"large{number}", every_s=60.0, num_cpus=1.0) for number in range(2)]
    await declare(dsn, *plain, *large)
    await fire(shard)

    begun = await worker.begin(places[0], reserving=places[1])

    assert len(begun.runs) == sum(places)
    assert (begun.short, begun.short_reserving) == short


async def test_places_are_not_short_of_starts_that_somebody_has_locked(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec("one", every_s=60.0), job_spec("two", every_s=60.0))
    await fire(shard)
    async with shard.session.connection() as client, client.transaction():
        await client.execute("select from shardclock.jobs for update")
        begun = await worker.begin(1)

    assert (begun.runs, begun.short) == ([], False), "who looked again at once would look in vain until they are free"


async def test_a_look_says_whether_a_start_waits_for_its_job_s_run(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=60.0, overlap="queue"))
    await fire(shard)
    await query(dsn, "select shardclock.run_job('refresh', null)")
    await fire(shard)
    first = await worker.begin()
    assert (len(first.runs), first.queued, (await worker.begin()).queued) == (1, True, True)

    await worker.end(first.runs[0])
    last = await worker.begin()
    assert (len(last.runs), last.queued, (await worker.begin()).queued) == (1, False, False)


@pytest.mark.parametrize(("overlap", "left"), [("skip", 3), ("queue", 4)])
async def test_planned_starts_do_not_pile_up_while_one_waits_for_a_place(
    dsn: str, shard: HolderClient, worker: JobWorker, overlap: str, left: int
) -> None:
    await declare(dsn, job_spec(every_s=60.0, overlap=overlap))
    await fire(shard)
    await query(dsn, PLANNED, "job:refresh")
    await query(dsn, PLANNED, "month-end")
    await query(dsn, "select shardclock.run_job('refresh', null)")
    await fire(shard)

    seen = await worker.begin(0)
    waiting = await query(dsn, "select name from shardclock.deliveries order by due_date")

    assert (seen.dropped, len(waiting)) == (4 - left, left)
    assert [row["name"] for row in waiting[-2:]] == ["month-end", None], "what somebody has asked for is made"
    reasons = [run.reason for run in await runs_of(dsn)]
    assert reasons == ["skipped: an earlier start was waiting"] * (4 - left)


async def test_of_starts_that_replace_each_other_the_last_one_begins_though_it_was_not_read(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=60.0, overlap="replace"))
    await fire(shard)
    await query(dsn, "select shardclock.run_job('refresh', null)")
    await fire(shard)

    part = await worker.begin(look=1)
    whole = await worker.begin()

    assert (part.runs, part.dropped) == ([], 0)
    assert ([run.job for run in whole.runs], whole.dropped) == (["refresh"], 1)


async def test_of_more_starts_that_replace_each_other_than_may_wait_the_last_one_begins(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=60.0, overlap="replace"))
    await query(dsn, "select shardclock.run_job('refresh', to_jsonb(n)) from generate_series(1, 102) n")
    await fire(shard)

    begun = await worker.begin()

    assert ([run.config for run in begun.runs], begun.dropped) == (["102"], 102)


async def test_a_start_that_was_asked_for_and_put_back_is_made_though_another_one_is_due_before(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=60.0))
    await query(dsn, "update shardclock.timers set due_date = now() + interval '20 s' where name = 'job:refresh'")
    await query(dsn, "select shardclock.run_job('refresh', '{\"city\": \"Oslo\"}')")
    await fire(shard)
    run = await worker.one()

    await worker.end(run, RunOutcome.INTERRUPTED, delay_s=30.0)

    await worker.wait(31.0)
    (again,) = (await worker.begin()).runs
    assert (again.timer_key, again.config) == (run.timer_key, '{"city": "Oslo"}')


async def test_the_end_of_a_run_tells_that_it_was_called_if_nobody_has_before(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=0.1))
    await fire(shard)
    run = await worker.one()
    await worker.end(run, called_s=0.002)

    (short,) = await runs_of(dsn)
    assert short.running_at is not None
    assert short.ended_at is not None
    assert short.ended_at - short.running_at == timedelta(seconds=0.002)
    assert (await said_of(dsn))[2:] == ["STARTING", "RUNNING", "DELIVERED", "SCHEDULED"]


async def test_a_run_that_is_shown_as_running_is_not_told_to_be_called_again(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=0.1))
    await fire(shard)
    run = await worker.one()
    await advance_runs(worker.session, worker.holder, [(run, "RUNNING", None)])
    (before,) = await runs_of(dsn)
    await worker.end(run, called_s=5.0)

    (after,) = await runs_of(dsn)
    assert after.running_at == before.running_at
    assert (await said_of(dsn)).count("RUNNING") == 1
