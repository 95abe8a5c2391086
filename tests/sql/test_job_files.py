"""Prove that a file of jobs takes effect immediately, and is refused if it contains an app's jobs or invalid jobs."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from shardclock_server.jobs.states import RunOutcome
from shardclock_server.sql.jobs.declare import declare_jobs
from shardclock_server.sql.session import StatementRefused
from tests.support.factories import HolderClient, ends, query, value, waits
from tests.support.job_runs import JobWorker, declare, fire, is_whole, job_of, said_of
from tests.support.jobs import job_spec
from tests.support.sql_client import call, refusal

EU: dict[str, Any] = {"name": "refresh-eu", "function": "app:refresh"}


async def apply(client: HolderClient, **said: Any) -> list[str]:
    """Apply the description of a job; return the changes."""
    changes: list[str] = await call(client, "apply_job", spec=json.dumps(EU | said))
    return changes


async def test_a_job_is_added_changed_and_left_unchanged_with_the_right_answers(
    dsn: str, shard: HolderClient, client: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec())

    assert await apply(client, every_s=60, config={"city": "Rome"}) == ["added"]
    assert await apply(client, every_s=60, config={"city": "Rome"}) == []

    await fire(shard)
    run = await worker.one()
    assert (run.job, run.function, json.loads(run.config or "")) == ("refresh-eu", "app:refresh", {"city": "Rome"})
    await worker.end(run)
    assert await apply(client, every_s=30, priority=1, policy={"max_retries": 0}) == ["every_s", "policy", "priority"]
    job = await job_of(dsn, "refresh-eu")
    assert job.last_finish is not None
    assert job.next_start == job.last_finish + timedelta(seconds=30), "it takes effect at once"
    assert json.loads(job.config or "") == {"city": "Rome"}, "a configuration stays"
    assert await apply(client) == ["every_s", "policy", "priority"], "omitted properties get their defaults"
    assert (await job_of(dsn, "refresh-eu")).next_start is None
    assert await is_whole(dsn) == []


async def test_a_job_without_a_function_in_any_app_is_kept_and_starts_when_an_app_has_it(
    dsn: str, shard: HolderClient, client: HolderClient, worker: JobWorker
) -> None:
    assert await apply(client, every_s=60) == ["added"]

    job = await job_of(dsn, "refresh-eu")
    assert (job.state, job.next_start) == ("DISABLED", None)
    assert job.withdrawn_at is not None
    assert "start the cluster with the app that declares it" in await refusal(client, "run_job", name="'refresh-eu'")
    assert await apply(client, every_s=30) == ["every_s"]
    await fire(shard)
    assert (await worker.begin()).runs == []
    changed = await declare(dsn, job_spec())
    assert changed == {"refresh": ["added"]}
    job = await job_of(dsn, "refresh-eu")
    assert (job.state, job.withdrawn_at) == ("SCHEDULED", None)
    assert await is_whole(dsn) == []
    await fire(shard)
    assert (await worker.one()).job == "refresh-eu"
    assert await apply(client, function="app:gone", every_s=30) == ["function"]
    job = await job_of(dsn, "refresh-eu")
    assert (job.state, job.cancel_why) == ("TERMINATING", "no app has its code")
    assert await is_whole(dsn) == []


async def test_an_entry_of_a_file_disables_or_enables_a_job_and_otherwise_does_not_change_its_state(
    dsn: str, shard: HolderClient, client: HolderClient, worker: JobWorker
) -> None:
    await declare(dsn, job_spec())
    assert await apply(client, every_s=60, disabled=True) == ["added"]
    assert (await job_of(dsn, "refresh-eu")).state == "DISABLED"
    assert await said_of(dsn, "refresh-eu") == ["DISABLED"]
    assert await apply(client, every_s=60) == []
    assert await apply(client, every_s=60, disabled=False) == ["disabled"]
    await fire(shard)
    run = await worker.one()
    await call(client, "disable_job", name="refresh-eu", reason="too slow")

    assert await apply(client, every_s=90) == ["every_s"]

    job = await job_of(dsn, "refresh-eu")
    assert (job.state, job.disabled_why) == ("TERMINATING", "too slow")
    assert await apply(client, every_s=90, disabled=False) == ["disabled"]
    await worker.end(run, RunOutcome.CANCELED)
    job = await job_of(dsn, "refresh-eu")
    assert (job.state, job.disabled_why) == ("SCHEDULED", None)
    assert job.next_start is not None
    assert await is_whole(dsn) == []


async def test_an_app_s_job_can_not_be_described_and_a_described_job_can_become_the_app_s(
    dsn: str, client: HolderClient
) -> None:
    await declare(dsn, job_spec())
    assert "that an app declares: change it there" in await refused(client, name="refresh")
    assert await apply(client, every_s=60) == ["added"]

    await declare(dsn, job_spec(), job_spec("refresh-eu", every_s=30.0))

    assert (await job_of(dsn, "refresh-eu")).every_s == 30.0
    assert "that an app declares: change it there" in await refused(client)
    await declare(dsn, job_spec())
    assert "had declared: remove it (shardclock jobs remove)" in await refused(client)
    assert await call(client, "remove_job", name="refresh-eu") is True
    assert await apply(client, every_s=60) == ["added"]


IMPOSSIBLE: list[tuple[dict[str, object], str]] = [
    ({"name": "Refresh"}, "must have 1 to 100 characters"),
    ({"name": None}, "must have 1 to 100 characters"),
    ({"name": 7}, "name 7 is refused: it must be a JSON string"),
    ({"function": "refresh"}, "function 'refresh' must be package.module:function"),
    ({"evry_s": 60}, "field 'evry_s' is unknown: the fields are name, function"),
    ({"every_s": "PT1H"}, 'every_s "PT1H" is refused: it must be a JSON number'),
    ({"every_s": 0}, "every_s 0 must be from 0.1 s to 365 days"),
    ({"every_s": 60, "schedule": "R/PT1H"}, "give every_s or schedule"),
    ({"schedule": "0 25 * * *"}, "schedule"),
    ({"schedule": "R5/PT1H"}, "ends, and a job has no end"),
    ({"zone": "Mars"}, "zone 'Mars' is not an IANA time zone"),
    ({"schedule": "R/PT1H", "zone": "Mars"}, "zone 'Mars' is not an IANA time zone"),
    ({"missed": "all"}, "missed 'all' is unknown"),
    ({"overlap": "allow"}, "overlap 'allow' is unknown"),
    ({"priority": 1.5}, "priority 1.5 must be from 1 to 4"),
    ({"policy": []}, "policy [] is refused: it must be a JSON object"),
    ({"disabled": "yes"}, 'disabled "yes" is refused: it must be a JSON boolean'),
    ({"config": "x" * 70_000}, "the limit is 65536 (64 KiB)"),
]


async def test_an_impossible_job_is_refused(dsn: str, client: HolderClient) -> None:
    for said, why in IMPOSSIBLE:
        assert why in await refused(client, **said), said
    assert await value(dsn, "select count(*) from shardclock.jobs") == 0


async def refused(client: HolderClient, **said: object) -> str:
    """Describe an invalid job; return the sentence of the refusal."""
    text = json.dumps(EU | said).replace("'", "''")
    return await refusal(client, "apply_job", spec=f"'{text}'")


async def test_a_zone_in_brackets_becomes_the_job_s_zone_and_is_not_a_change_the_next_time(
    dsn: str, client: HolderClient
) -> None:
    await declare(dsn, job_spec())
    rule = "R/2026-01-01T08:00:00[Europe/Berlin]/P1D"

    assert await apply(client, schedule=rule) == ["added"]

    assert (await job_of(dsn, "refresh-eu")).zone == "Europe/Berlin"
    assert await apply(client, schedule=rule) == []
    (row,) = await query(dsn, "select * from shardclock.timers")
    assert (row["schedule"], row["zone"]) == (rule, "Europe/Berlin")


async def test_a_zone_with_a_p_after_its_slash_is_not_the_end_of_a_job_s_rule(dsn: str, client: HolderClient) -> None:
    await declare(dsn, job_spec())

    assert await apply(client, schedule="R/2026-01-01T08:00:00[Europe/Paris]/P1D") == ["added"]

    assert (await job_of(dsn, "refresh-eu")).zone == "Europe/Paris"
    ended = await refused(client, schedule="R/P1D/2051-01-01T08:00:00[Europe/Paris]")
    assert "ends, and a job has no end" in ended


async def test_a_job_that_is_described_while_its_app_is_declared_does_not_remain_withdrawn(
    dsn: str, shard: HolderClient, client: HolderClient
) -> None:
    await shard.begin()
    await declare_jobs(shard.session, [job_spec()])
    described = await waits(client, apply(client, every_s=60))

    await shard.commit()

    assert await ends(described) == ["added"]
    job = await job_of(dsn, "refresh-eu")
    assert (job.withdrawn_at, job.state) == (None, "SCHEDULED")
    assert job.next_start is not None
    assert await is_whole(dsn) == []


async def test_a_description_does_not_overwrite_a_concurrent_declaration(
    dsn: str, shard: HolderClient, client: HolderClient
) -> None:
    await shard.begin()
    await declare_jobs(shard.session, [job_spec("refresh-eu", every_s=60.0)])
    described = await waits(client, call(client, "apply_job", spec=json.dumps(EU | {"every_s": 5})))

    await shard.commit()

    with pytest.raises(StatementRefused, match="name 'refresh-eu' belongs to a job that an app declares"):
        await ends(described)
    assert (await job_of(dsn, "refresh-eu")).every_s == 60.0


async def test_no_job_is_added_for_a_job_that_the_app_withdraws_meanwhile(
    dsn: str, shard: HolderClient, client: HolderClient, other: HolderClient
) -> None:
    await declare(dsn, job_spec())
    await shard.begin()
    assert await declare_jobs(shard.session, []) == {"refresh": ["withdrawn"]}
    added = await waits(client, call(client, "add_job", name="refresh-us", of_job="refresh", schedule="R/PT1H"))

    await shard.commit()

    with pytest.raises(StatementRefused, match="job 'refresh' was withdrawn"):
        await ends(added)

    # And a job that is added before the withdrawal is withdrawn together with the app's job.
    await declare(dsn, job_spec())
    await client.begin()
    await call(client, "add_job", name="refresh-us", of_job="refresh", schedule="R/PT1H")
    assert await apply(other) == ["added"], "clients do not wait for each other"
    withdrawn = await waits(shard, declare_jobs(shard.session, []))
    await client.commit()
    assert sorted(await ends(withdrawn)) == ["refresh", "refresh-eu", "refresh-us"]
    assert await is_whole(dsn) == []
