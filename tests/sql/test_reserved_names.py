"""Prove that clients can neither write nor change the timers of jobs and processes, and that operators can."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from shardclock_server.sql.clients.outcomes import Refused, Scheduled
from shardclock_server.sql.clients.scheduling import ScheduleBatch
from shardclock_server.sql.clients.verbs import Shift, TimerRef, change_system_timer
from shardclock_server.sql.jobs.declare import maintain_jobs
from shardclock_server.sql.session import StatementRefused
from tests.support.factories import HolderClient, add_timers, query, value
from tests.support.job_runs import JobWorker, declare
from tests.support.jobs import job_spec
from tests.support.roles import OPERATOR
from tests.support.scheduling import timer
from tests.support.sql_client import call, refusal, schedule

IN_AN_HOUR = "now() + interval '1 hour'"
RESERVED = ["job:refresh", "job:none", "job:", "process:1200:3:wait", "process:instance", "start:5:1", "start:"]
TARGETS = ["job:refresh", "job:none", "job:", "process:instance", "process:other"]
NAME_SENTENCE = (
    "name '{}' is reserved: names that begin with job:, process: or start: are for the timers of jobs and processes; "
    "choose another name"
)
# The rows that jobs and processes write.
OWNERS = {
    "job": {"target": "'job:refresh'", "name": "'job:refresh'"},
    "instance": {"target": "'process:instance'", "name": "'process:1200:3:wait'", "process_instance_key": "1200"},
    "start": {"target": "'process:instance'", "name": "'start:5:1'", "timer_type": "'START_EVENT'"},
}
VERBS: dict[str, dict[str, Any]] = {
    "cancel_timer": {}, "pause_timer": {}, "resume_timer": {}, "run_timer": {},
    "reschedule_timer": {"delay": "PT5M"},
}  # fmt: skip


@pytest.fixture
async def job(dsn: str) -> None:
    await declare(dsn, job_spec(every_s=3600.0))
    await query(dsn, "delete from shardclock.timers")


@pytest.fixture
async def operator(dsn: str) -> AsyncIterator[HolderClient]:
    async with HolderClient(dsn, plans={}, role=OPERATOR) as hand:
        yield hand


async def rows(dsn: str) -> list[dict[str, Any]]:
    return [dict(row) for row in await query(dsn, "select * from shardclock.timers order by timer_key")]


@pytest.mark.usefixtures("job")
async def test_a_reserved_name_is_refused_in_each_way_to_schedule(client: HolderClient) -> None:
    for name, on_conflict in itertools.product(RESERVED, ("refuse", "ignore", "replace")):
        for function in ("schedule_timer", "ensure_timer"):
            refused = await refusal(client, function, delay="'PT1H'", name=f"'{name}'", on_conflict=f"'{on_conflict}'")
            assert refused == NAME_SENTENCE.format(name)
        fields = {"name": name, "on_conflict": on_conflict}
        (taken,) = await ScheduleBatch([timer(**fields)]).send(client.session)
        assert isinstance(taken, Refused)
        assert NAME_SENTENCE.format(name) in str(taken)
    _, free = await ScheduleBatch([timer(name=RESERVED[0]), timer(name="free")]).send(client.session)
    assert isinstance(free, Scheduled)
    assert [row["name"] for row in await rows(client.dsn)] == ["free"]
    for name in RESERVED:
        with pytest.raises(asyncpg.CheckViolationError, match="is reserved"):
            await query(client.dsn, "insert into shardclock.timers (due_date, name) values (now(), $1)", name)
        with pytest.raises(asyncpg.CheckViolationError, match="is reserved"):
            await query(client.dsn, "update shardclock.timers set name = $1", name)


@pytest.mark.shared_database
@pytest.mark.usefixtures("job")
@pytest.mark.parametrize("target", TARGETS)
async def test_a_reserved_target_is_refused_in_each_way_to_schedule(client: HolderClient, target: str) -> None:
    sentences = {
        await refusal(client, function, delay="'PT1H'", name="'n'", target=f"'{target}'")
        for function in ("schedule_timer", "ensure_timer")
    }
    (sentence,) = sentences
    assert sentence.startswith(f"target '{target}' is reserved for the timers of ")
    assert "choose another target" in sentence
    for on_conflict in ("refuse", "ignore", "replace"):
        fields = {"target": target, "on_conflict": on_conflict}
        (taken,) = await ScheduleBatch([timer(**fields)]).send(client.session)
        assert isinstance(taken, Refused)
        assert sentence in str(taken)
    assert await rows(client.dsn) == []


@pytest.mark.parametrize("name", ["jobs:1", "JOB:x", "a job:x", "my-process:1", "restart:1", "start", "process"])
async def test_other_names_are_free(client: HolderClient, name: str) -> None:
    await schedule(client, name=name)
    assert [row["name"] for row in await rows(client.dsn)] == [name]


@pytest.mark.usefixtures("job")
@pytest.mark.parametrize("state", ["PENDING", "PAUSED"])
@pytest.mark.parametrize("owner", OWNERS)
async def test_each_verb_of_a_client_refuses_a_timer_of_the_system_and_names_the_way_out(
    client: HolderClient, operator: HolderClient, owner: str, state: str
) -> None:
    (key,) = await add_timers(client.dsn, 1, IN_AN_HOUR, **OWNERS[owner])
    if state == "PAUSED":
        assert await call(operator, "change_system_timer", verb="pause", timer_key=key) == "PAUSED"
    (before,) = await rows(client.dsn)
    moves: list[dict[str, Any]] = [
        {"shift": "PT1H"}, {"due_date": datetime(2040, 1, 1, tzinfo=UTC)}, {"schedule": "R/PT1H"},
    ]  # fmt: skip

    for verb, more in (*VERBS.items(), *(("reschedule_timer", move) for move in moves)):
        for which in ({"timer_key": key}, {"name": before["name"]}):
            with pytest.raises(StatementRefused) as refused:
                await call(client, verb, **which, **more)
            assert refused.value.sqlstate == "55000"
            assert f"timer {key} " in str(refused.value)
            assert "or let an operator change the timer (shardclock operate)" in str(refused.value)
    assert await rows(client.dsn) == [before]


@pytest.mark.usefixtures("job")
@pytest.mark.parametrize(
    ("function", "more"),
    [
        ("cancel_timers", {}),
        ("pause_timers", {}),
        ("resume_timers", {}),
        ("run_timers", {}),
        ("shift_timers", {"shift": "PT1H"}),
    ],
)
async def test_each_bulk_verb_leaves_the_timers_of_the_system(
    client: HolderClient, function: str, more: dict[str, str]
) -> None:
    theirs = [(await add_timers(client.dsn, 1, IN_AN_HOUR, **columns))[0] for columns in OWNERS.values()]
    own = await schedule(client, process_instance_key=1200)
    if function == "resume_timers":
        await call(client, "pause_timers", timer_keys=[own])
        await query(client.dsn, "select shardclock.change_system_timer('pause', k) from unnest($1::bigint[]) k", theirs)
    before = [row for row in await rows(client.dsn) if row["timer_key"] != own]

    arguments = "$1, $2" if more else "$1"
    called = await query(
        client.dsn, f"select shardclock.{function}({arguments}) as key", [*theirs, own], *more.values()
    )

    assert [row["key"] for row in called] == [own]
    assert [row for row in await rows(client.dsn) if row["timer_key"] != own] == before


async def test_canceling_an_instance_of_another_engine_cancels_only_its_timers(
    client: HolderClient,
) -> None:
    (ours,) = await add_timers(client.dsn, 1, IN_AN_HOUR, **OWNERS["instance"])
    await schedule(client, process_instance_key=1200)

    assert await call(client, "cancel_process_instance", process_instance_key=1200) == 1
    assert [row["timer_key"] for row in await rows(client.dsn)] == [ours]


@pytest.mark.usefixtures("job")
@pytest.mark.parametrize("owner", OWNERS)
async def test_an_operator_pauses_moves_and_resumes_a_timer_of_the_system(operator: HolderClient, owner: str) -> None:
    (key,) = await add_timers(operator.dsn, 1, IN_AN_HOUR, **OWNERS[owner])
    (before,) = await rows(operator.dsn)
    which = TimerRef(name=before["name"])

    assert await change_system_timer(operator.session, which, verb="pause", to=None, reason="month-end") == "PAUSED"
    assert await change_system_timer(operator.session, which, verb="pause", to=None) == "PAUSED"
    assert await change_system_timer(operator.session, which, verb="reschedule", to=Shift("PT1H")) == "RESCHEDULED"
    assert await change_system_timer(operator.session, TimerRef(key), verb="resume", to=None) == "PENDING"
    moved = datetime(2040, 1, 1, tzinfo=UTC)
    assert await change_system_timer(operator.session, which, verb="reschedule", to=moved) == "RESCHEDULED"

    (after,) = await rows(operator.dsn)
    assert (after["timer_key"], after["due_date"], after["target"]) == (key, moved, before["target"])
    said = await query(
        operator.dsn, "select intent, detail ->> 'reason' as reason from shardclock.command_log order by position"
    )
    assert [(row["intent"], row["reason"]) for row in said if row["intent"] != "SCHEDULED"] == [
        ("PAUSED", "month-end"), ("RESCHEDULED", None), ("RESUMED", None), ("RESCHEDULED", None),
    ]  # fmt: skip
    assert await change_system_timer(operator.session, TimerRef(10**9), verb="pause", to=None) == "UNKNOWN"


async def test_an_operators_verb_refuses_the_timers_of_clients(operator: HolderClient) -> None:
    key = await schedule(operator)
    with pytest.raises(StatementRefused, match=f"timer {key} belongs to a client: change it by pause_timer"):
        await change_system_timer(operator.session, TimerRef(key), verb="pause", to=None)
    for wrong in ({"verb": "'cancel'"}, {"verb": "'pause'", "delay": "'PT1H'"}, {"verb": "'reschedule'"}):
        assert "verb '" in await refusal(operator, "change_system_timer", timer_key=str(key), **wrong)


async def test_a_row_that_has_only_the_name_of_a_next_start_does_not_count_as_a_next_start(
    dsn: str, worker: JobWorker
) -> None:
    await declare(dsn, job_spec(every_s=3600.0))
    await query(dsn, "delete from shardclock.timers")
    await query(dsn, "alter table shardclock.timers disable trigger check_new_timer")
    await query(dsn, "insert into shardclock.timers (due_date, name) values (now() + interval '1 day', 'job:refresh')")
    assert await value(dsn, "select shardclock.has_no_start('refresh')")

    await query(dsn, "delete from shardclock.timers")
    assert await maintain_jobs(worker.session, 11) == {"refresh": "it had no next start"}
    assert await value(dsn, "select count(*) from shardclock.timers where target = 'job:refresh'") == 1


async def test_a_schedulers_session_has_no_right_to_the_operators_verb(dsn: str) -> None:
    allowed = await query(
        dsn,
        "select r, has_function_privilege('shardclock_' || r, p.oid, 'execute') as may"
        " from unnest(array['shard', 'gateway', 'scheduler', 'consumer', 'reader']) r,"
        " pg_proc p where p.proname = 'change_system_timer'",
    )
    assert {row["r"]: row["may"] for row in allowed} == {
        "shard": True, "gateway": True, "scheduler": False, "consumer": False, "reader": False,
    }  # fmt: skip
