"""A poll for starts of jobs reports the starts that it did not begin; the end of a short run also reports its begin."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from shardclock_server.jobs.states import RunOutcome
from shardclock_server.sql.jobs.runs import advance_runs
from shardclock_server.workers.machine import Machine
from tests.support.factories import HolderClient, query
from tests.support.job_runs import LEASE_S, JobWorker, declare, fire, runs_of, said_of
from tests.support.jobs import job_spec

pytestmark = pytest.mark.each_version

SMALL = Machine(cpus=2, memory_mib=1_024).to_json()

# One more start of the job. Its name shows that the start was planned by the job's rule, and not requested.
PLANNED = """
    insert into shardclock.timers (due_date, target, name)
    values (now(), 'job:refresh', $1)
"""


async def test_a_poll_reads_the_first_starts_and_reports_that_more_starts_may_exist(
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
async def test_a_poll_reports_which_kind_of_slots_is_used_up(
    dsn: str, shard: HolderClient, worker: JobWorker, places: tuple[int, int], short: tuple[bool, bool]
) -> None:
    plain = [job_spec(f"plain{number}", every_s=60.0) for number in range(3)]
    large = [job_spec(f"large{number}", every_s=60.0, num_cpus=1.0) for number in range(2)]
    await declare(dsn, *plain, *large)
    await fire(shard)

    begun = await worker.begin(places[0], reserving=places[1])

    assert len(begun.runs) == sum(places)
    assert (begun.short, begun.short_reserving) == short


async def test_starts_locked_by_a_client_do_not_count_as_waiting_for_slots(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec("one", every_s=60.0), job_spec("two", every_s=60.0))
    await fire(shard)
    async with shard.session.connection() as client, client.transaction():
        await client.execute("select from shardclock.jobs for update")
        begun = await worker.begin(1)

    assert (begun.runs, begun.short) == ([], False), "another read at once would find nothing until they are free"


@pytest.mark.parametrize("overlap", ["skip", "queue", "replace"])
async def test_a_start_of_a_job_that_asks_for_gpus_waits_for_another_worker(
    dsn: str, shard: HolderClient, worker: JobWorker, overlap: str
) -> None:
    await declare(dsn, job_spec(every_s=60.0), job_spec("trains", every_s=60.0, overlap=overlap, num_gpus=1.0))
    await fire(shard)

    local = await worker.begin(machine=SMALL)
    again = await worker.begin(machine=SMALL)
    ray = await worker.begin()

    assert [run.job for run in local.runs] == ["refresh"]
    assert (again.runs, again.short, again.short_reserving, again.queued, again.dropped) == ([], False, False, False, 0)
    assert [(run.job, run.claims) for run in ray.runs] == [("trains", 1)], "it was not claimed before"


POLICIES = [
    ({}, True),
    ({"num_gpus": 0, "num_cpus": 2, "memory_mib": 1024}, True),
    ({"num_gpus": None, "num_cpus": None, "memory_mib": None}, True),
    ({"num_gpus": "many", "num_cpus": [], "memory_mib": "3 GB"}, True),  # refused when the start begins
    ({"num_gpus": 0.5}, False),
    ({"num_cpus": 2.5}, False),
    ({"memory_mib": 1025}, False),
    ({"num_gpus": 1, "num_cpus": "many"}, False),
]


@pytest.mark.parametrize(("policy", "begins"), POLICIES)
async def test_the_stored_policy_of_a_job_decides_whether_a_machine_has_enough_resources(
    dsn: str, shard: HolderClient, worker: JobWorker, policy: dict[str, Any], begins: bool
) -> None:
    await declare(dsn, job_spec(every_s=60.0))
    await query(dsn, "update shardclock.jobs set policy = $1", json.dumps(policy))
    await fire(shard)

    local = await worker.begin(machine=SMALL)

    assert len(local.runs) == begins
    assert len((await worker.begin()).runs) == (not begins), "without a limit each start begins"


async def test_a_crashed_run_of_a_job_that_asks_for_gpus_is_found(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=60.0, num_gpus=1.0))
    await fire(shard)
    await worker.one()
    await worker.wait(LEASE_S + 1.0)

    (run,) = (await worker.begin(machine=SMALL)).runs

    assert run.crashed


async def test_a_poll_reports_whether_a_start_waits_for_its_job_s_run(
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
async def test_planned_starts_do_not_accumulate_while_one_waits_for_a_slot(
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
    assert [row["name"] for row in waiting[-2:]] == ["month-end", None], "requested runs are made"
    reasons = [run.reason for run in await runs_of(dsn)]
    assert reasons == ["skipped: an earlier start was waiting"] * (4 - left)


async def test_the_last_of_several_replacing_starts_begins_even_if_it_was_not_read(
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


async def test_the_last_of_too_many_replacing_starts_begins(dsn: str, shard: HolderClient, worker: JobWorker) -> None:
    await declare(dsn, job_spec(every_s=60.0, overlap="replace"))
    await query(dsn, "select shardclock.run_job('refresh', to_jsonb(n)) from generate_series(1, 102) n")
    await fire(shard)

    begun = await worker.begin()

    assert ([run.config for run in begun.runs], begun.dropped) == (["102"], 102)


async def test_a_released_start_on_request_runs_although_another_start_is_due_earlier(
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


async def test_the_end_of_a_run_also_records_the_call_if_the_call_is_not_recorded_yet(
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


async def test_a_run_that_is_shown_as_running_is_not_reported_as_called_again(
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
