"""Prove that the start of an app declares its jobs, and that each verb takes effect immediately."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from shardclock_server.jobs.states import RunOutcome
from shardclock_server.shards.settings import ShardSettings
from shardclock_server.shards.shard import Shard
from shardclock_server.sql.deliveries.claim import DeliveryScan, claim_deliveries
from shardclock_server.sql.jobs.declare import maintain_jobs
from shardclock_server.sql.session import Session
from tests.support.factories import HolderClient, add_holder, query, value
from tests.support.job_runs import JobWorker, declare, fire, is_whole, job_of, runs_of, said_of
from tests.support.jobs import job_spec
from tests.support.roles import as_role
from tests.support.shard_pool import incarnation
from tests.support.sql_client import call, refusal

DAILY = {"schedule": "0 3 * * *", "zone": "Europe/Berlin"}


async def timers(dsn: str) -> list[dict[str, Any]]:
    return [dict(row) for row in await query(dsn, "select * from shardclock.timers where name like 'job:%'")]


async def plan_and_fire(dsn: str) -> None:
    """Plan schedules and fire the due timers, as a shard does."""
    shard = Shard(incarnation(), ShardSettings(), as_role(dsn, "shard"))
    await add_holder(dsn, shard.holder, 0, 1)
    await shard.beat_turn()
    for _ in range(3):
        await shard.claim_turn()
        while len(shard):
            await shard.fire_turn()
    await shard._hand_back()


async def test_the_first_declaration_of_an_app_returns_the_changes_and_the_next_returns_none(dsn: str) -> None:
    refresh, nightly = job_spec(every_s=900.0), job_spec("nightly", **DAILY)

    assert await declare(dsn, refresh, nightly) == {"refresh": ["added"], "nightly": ["added"]}
    assert await declare(dsn, refresh, nightly) == {}
    assert await declare(dsn, job_spec(every_s=600.0, max_retries=7, config='{"city": "Bonn"}'), nightly) == {
        "refresh": ["config", "every_s", "policy"]
    }
    assert await declare(dsn, refresh) == {"refresh": ["config", "every_s", "policy"], "nightly": ["withdrawn"]}
    assert await declare(dsn, refresh, nightly) == {"nightly": ["back"]}
    assert await is_whole(dsn) == []


async def test_a_new_job_with_an_interval_starts_at_once_and_one_on_a_grid_at_its_next_date(dsn: str) -> None:
    await declare(dsn, job_spec(every_s=900.0), job_spec("nightly", **DAILY), job_spec("on_request"))
    unplanned = await job_of(dsn, "nightly")
    assert (unplanned.next_start, unplanned.next_key is None) == (None, False), "now is not a date of its rule"
    await plan_and_fire(dsn)

    assert await value(dsn, "select target from shardclock.deliveries") == "job:refresh"
    (row,) = await timers(dsn)
    assert (row["name"], row["target"], row["schedule"], row["zone"]) == (
        "job:nightly", "job:nightly", "0 3 * * *", "Europe/Berlin"
    )  # fmt: skip
    assert row["anchor_occurrence"] is not None
    assert (await job_of(dsn, "nightly")).next_start == row["due_date"]
    assert (await job_of(dsn, "on_request")).next_start is None


async def test_on_a_grid_the_firing_writes_the_next_start_before_the_run_begins(dsn: str, worker: JobWorker) -> None:
    await declare(dsn, job_spec("beat", schedule="R/PT1H"))
    await plan_and_fire(dsn)
    await query(dsn, "update shardclock.timers set due_date = now(), anchor = now() - interval '1 hour'")
    await plan_and_fire(dsn)

    run = await worker.one()

    (row,) = await timers(dsn)
    assert timedelta(minutes=59) < row["due_date"] - run.scheduled_at <= timedelta(minutes=61)
    await worker.end(run)
    assert [it["due_date"] for it in await timers(dsn)] == [row["due_date"]], "its end moves nothing"
    assert (await job_of(dsn, "beat")).next_start == row["due_date"]


async def test_an_operators_change_is_kept_until_the_app_declares_another_value(dsn: str, client: HolderClient) -> None:
    await declare(dsn, job_spec(every_s=900.0, config='{"city": "Berlin"}'))
    assert json.loads(await call(client, "configure_job", name="refresh", config='{"city": "Rome"}')) == {
        "city": "Berlin"
    }

    await declare(dsn, job_spec(every_s=600.0, config='{"city": "Berlin"}'))

    job = await job_of(dsn)
    assert (job.every_s, json.loads(job.config or "")) == (600.0, {"city": "Rome"})
    await declare(dsn, job_spec(every_s=600.0, config='{"city": "Bonn"}'))
    assert json.loads((await job_of(dsn)).config or "") == {"city": "Bonn"}


async def test_another_rule_moves_the_next_start_at_once(dsn: str, shard: HolderClient, worker: JobWorker) -> None:
    await declare(dsn, job_spec(every_s=3_600.0))
    await fire(shard)
    await worker.end(await worker.one())

    await declare(dsn, job_spec(every_s=60.0))

    job = await job_of(dsn)
    assert job.last_finish is not None
    assert job.next_start == job.last_finish + timedelta(seconds=60)
    await declare(dsn, job_spec(**DAILY))
    (row,) = await timers(dsn)
    assert row["schedule"] == "0 3 * * *"
    await declare(dsn, job_spec())
    assert await timers(dsn) == []
    assert await is_whole(dsn) == []


async def test_a_job_whose_code_is_gone_keeps_its_history_and_its_run_is_cancelled(
    dsn: str, shard: HolderClient, client: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=60.0))
    await fire(shard)
    run = await worker.one()

    assert await declare(dsn) == {"refresh": ["withdrawn"]}

    job = await job_of(dsn)
    assert (job.state, job.cancel_why, job.run_id) == ("TERMINATING", "its code is gone", run.run_id)
    await worker.end(run, RunOutcome.CANCELED)
    job = await job_of(dsn)
    assert (job.state, job.next_start, job.runs) == ("DISABLED", None, 1)
    assert "start the cluster with the app that declares it" in await refusal(client, "enable_job", name="'refresh'")
    assert "start the cluster with the app that declares it" in await refusal(client, "run_job", name="'refresh'")
    await declare(dsn, job_spec(every_s=60.0))
    job = await job_of(dsn)
    assert (job.state, job.withdrawn_at) == ("SCHEDULED", None)
    assert job.last_finish is not None
    assert job.next_start == job.last_finish + timedelta(seconds=60)
    assert await is_whole(dsn) == []


@pytest.mark.parametrize("overlap", ["skip", "queue", "replace"])
async def test_a_waiting_start_of_a_withdrawn_job_waits_until_the_job_is_declared_again(
    dsn: str, shard: HolderClient, worker: JobWorker, overlap: str
) -> None:
    refresh = job_spec(every_s=60.0, overlap=overlap)
    await declare(dsn, refresh)
    await fire(shard)
    interrupted = await worker.one()
    await worker.end(interrupted, RunOutcome.INTERRUPTED, delay_s=0.0)

    assert await declare(dsn, job_spec("other")) == {"other": ["added"], "refresh": ["withdrawn"]}
    begun = await worker.begin()

    assert (begun.runs, begun.dropped) == ([], 0)
    assert await value(dsn, "select count(*) from shardclock.command_log where intent = 'DISCARDED'") == 0
    assert await declare(dsn, refresh, job_spec("other")) == {"refresh": ["back"]}
    again = await worker.one()
    assert (again.job, again.timer_key, again.claims) == ("refresh", interrupted.timer_key, 2)


async def test_a_job_that_an_operator_disabled_remains_disabled_after_a_declaration(
    dsn: str, client: HolderClient
) -> None:
    await declare(dsn, job_spec(every_s=60.0))
    assert await call(client, "disable_job", name="refresh", reason="too slow") == "DISABLED"

    await declare(dsn, job_spec(every_s=30.0))
    await declare(dsn)
    await declare(dsn, job_spec(every_s=30.0))

    job = await job_of(dsn)
    assert (job.state, job.next_start, job.disabled_why, job.disabled_by) == (
        "DISABLED", None, "too slow", "test_scheduler"
    )  # fmt: skip
    assert await timers(dsn) == []
    assert await call(client, "enable_job", name="refresh") == "SCHEDULED"
    assert (await job_of(dsn)).next_start is not None
    assert await call(client, "enable_job", name="refresh") == "SCHEDULED", "it is enabled"
    assert await is_whole(dsn) == []


async def test_each_change_by_a_client_is_recorded_with_its_role(
    dsn: str, shard: HolderClient, client: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=60.0))
    await call(client, "disable_job", name="refresh", reason="too slow")
    await call(client, "enable_job", name="refresh")
    await fire(shard)
    run = await worker.one()
    assert await call(client, "cancel_job", name="refresh", reason="wrong city") == "TERMINATING"
    assert await call(client, "cancel_job", name="refresh") == "TERMINATING"

    assert await said_of(dsn) == [
        "SCHEDULED", "CANCELED", "DISABLED", "SCHEDULED", "TRIGGERED", "STARTING", "TERMINATING"
    ]  # fmt: skip
    details = [
        json.loads(row["detail"])
        for row in await query(
            dsn,
            "select detail from shardclock.command_log where intent in ('CANCELED', 'DISABLED', 'TERMINATING')"
            " order by position",
        )
    ]
    assert [(it["by"], it["reason"]) for it in details] == [
        ("test_scheduler", "disabled: too slow"), ("test_scheduler", "disabled: too slow"),
        ("test_scheduler", "wrong city"),
    ]  # fmt: skip
    await worker.end(run, RunOutcome.CANCELED, reason="wrong city")
    assert await call(client, "cancel_job", name="refresh") == "SCHEDULED", "nothing runs"


async def test_a_run_on_request_is_part_of_the_caller_s_transaction(
    dsn: str, shard: HolderClient, client: HolderClient
) -> None:
    await declare(dsn, job_spec(every_s=3_600.0))
    await fire(shard)
    await client.begin()
    await client.value("select shardclock.run_job('refresh', '{\"city\": \"Rome\"}')")
    await client.rollback()
    assert await value(dsn, "select count(*) from shardclock.timers") == 0

    key = await call(client, "run_job", name="refresh", config='{"city": "Rome"}')

    (row,) = await query(dsn, "select * from shardclock.timers")
    assert (row["timer_key"], row["target"], row["name"]) == (key, "job:refresh", None)
    assert json.loads(row["payload"]) == {"city": "Rome"}


async def test_an_unknown_job_is_refused_with_a_list_of_the_jobs(dsn: str, client: HolderClient) -> None:
    verbs = ("run_job", "cancel_job", "disable_job", "enable_job")
    for verb in verbs:
        assert "there are none; an app declares them" in await refusal(client, verb, name="'refrsh'")
    await declare(dsn, job_spec())
    for verb in verbs:
        assert await refusal(client, verb, name="'refrsh'") == "job 'refrsh' is unknown: the jobs are refresh"


async def test_a_target_that_starts_no_job_is_refused(dsn: str, client: HolderClient) -> None:
    await declare(dsn, job_spec())

    for more in ({}, {"tenant_id": "'acme'"}):
        refused = await refusal(client, "schedule_timer", delay="'PT1S'", target="'job:refresh'", **more)
        assert "start the job (shardclock jobs run)" in refused
    assert "is unknown" in await refusal(client, "run_job", name="'other'")
    assert "the limit is 65536" in await refusal(
        client, "run_job", name="'refresh'", config="to_jsonb(repeat('x', 70000))"
    )
    await call(client, "disable_job", name="refresh")
    assert "enable it (shardclock jobs enable)" in await refusal(client, "run_job", name="'refresh'")


async def test_a_job_may_run_the_function_of_another_job_with_a_different_rule(
    dsn: str, shard: HolderClient, client: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(config='{"city": "Rome"}', max_retries=7, priority=1))

    assert await call(client, "add_job", name="refresh-eu", of_job="refresh", every=timedelta(hours=1)) == "SCHEDULED"

    await fire(shard)
    run = await worker.one()
    assert (run.job, run.function, json.loads(run.config or "")) == ("refresh-eu", "app:refresh", {"city": "Rome"})
    assert json.loads(run.policy)["max_retries"] == 7
    assert "a run in progress" in await refusal(client, "remove_job", name="'refresh-eu'")
    await worker.end(run)
    assert (await job_of(dsn, "refresh-eu")).next_start is not None
    assert await declare(dsn) == {"refresh": ["withdrawn"], "refresh-eu": ["withdrawn"]}
    assert (await job_of(dsn, "refresh-eu")).state == "DISABLED"
    await declare(dsn, job_spec(config='{"city": "Rome"}', max_retries=7, priority=1))
    assert (await job_of(dsn, "refresh-eu")).next_start is not None
    assert await is_whole(dsn) == []
    assert await call(client, "remove_job", name="refresh-eu") is True
    assert await call(client, "remove_job", name="refresh-eu") is False
    assert await timers(dsn) == []
    assert "declared by the app" in await refusal(client, "remove_job", name="'refresh'")


IMPOSSIBLE = [
    ({"name": "'Refresh'", "of_job": "'refresh'"}, "must have 1 to 100 characters"),
    ({"name": "'b'", "of_job": "'other'"}, "of_job 'other' is unknown"),
    ({"name": "'refresh'", "of_job": "'refresh'"}, "exists: remove it first"),
    ({"name": "'b'", "of_job": "'refresh'", "every": "'P1M'"}, "has years or months"),
    ({"name": "'b'", "of_job": "'refresh'", "every": "'0 s'"}, "must be from 0.1 s to 365 days"),
    ({"name": "'b'", "of_job": "'refresh'", "every": "'PT1H'", "schedule": "'R/PT1H'"}, "give every or schedule"),
    ({"name": "'b'", "of_job": "'refresh'", "schedule": "'0 25 * * *'"}, "schedule"),
    (
        {"name": "'b'", "of_job": "'refresh'", "schedule": "'R/PT1H'", "zone": "'Mars'"},
        "zone 'Mars' is not an IANA",
    ),
    ({"name": "'b'", "of_job": "'refresh'", "overlap": "'allow'"}, "overlap 'allow' is unknown"),
    ({"name": "'b'", "of_job": "'refresh'", "priority": "9"}, "priority 9 must be from 1 to 4"),
]


async def test_an_impossible_job_is_refused(dsn: str, client: HolderClient) -> None:
    await declare(dsn, job_spec())
    for said, why in IMPOSSIBLE:
        assert why in await refusal(client, "add_job", **said), said


async def test_only_workers_with_jobs_claim_a_job_s_delivery(dsn: str, shard: HolderClient, worker: JobWorker) -> None:
    await declare(dsn, job_spec(every_s=60.0))
    await fire(shard)

    taken = await claim_deliveries(worker.session, 11, DeliveryScan(["order.expired"], 100), lease_s=10.0)

    assert taken.claimed == []


async def test_a_job_that_lost_its_next_start_or_its_delivery_is_repaired(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=60.0), job_spec("nightly", **DAILY), job_spec("lost", every_s=60.0))
    await fire(shard)
    (lost,) = [run for run in (await worker.begin()).runs if run.job == "lost"]
    await query(dsn, "delete from shardclock.deliveries")
    await query(dsn, "delete from shardclock.timers")
    async with Session(as_role(dsn, "shard"), application="test") as session:
        repaired = await maintain_jobs(session, 11)

        assert repaired == {
            "lost": "it had no next start",
            "nightly": "it had no next start",
            "refresh": "it had no next start",
        }
        assert await is_whole(dsn) == []
        job = await job_of(dsn, "lost")
        assert (job.state, job.crashes, job.last_outcome) == ("SCHEDULED", 1, "CRASHED")
        assert [(run.run_id, run.outcome) for run in await runs_of(dsn, "lost")] == [(lost.run_id, "CRASHED")]
        assert await maintain_jobs(session, 11) == {}
        await query(dsn, "delete from shardclock.timers")
        assert await maintain_jobs(session, 12) == {}, "one worker is enough"


async def test_a_mark_that_is_left_after_a_failover_does_not_stop_a_job_permanently(
    dsn: str, shard: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=60.0))
    await fire(shard)
    run = await worker.one()
    # The state on a promoted replica that has the begin of the run, and lacks all later writes. TimescaleDB has a
    # similar fault: a job with the next start -infinity.
    await query(dsn, "delete from shardclock.deliveries where timer_key = $1", run.timer_key)
    await query(dsn, "update shardclock.jobs set last_start = '-infinity', last_finish = '-infinity'")

    async with Session(as_role(dsn, "shard"), application="test") as session:
        await maintain_jobs(session, 11)

    job = await job_of(dsn)
    assert (job.state, job.crashes, job.last_outcome) == ("SCHEDULED", 1, "CRASHED")
    assert job.last_finish is not None
    assert job.next_start is not None
    assert job.next_start - job.last_finish <= timedelta(seconds=60)
    await query(dsn, "update shardclock.timers set due_date = now()")
    await fire(shard)
    again = await worker.one()
    assert again.run_id != run.run_id
    await worker.end(again)
    assert (await job_of(dsn)).last_outcome == "SUCCEEDED"
