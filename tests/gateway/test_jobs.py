"""Test that jobs are created, changed and removed through the HTTP API as by a file of jobs."""

from __future__ import annotations

import pytest

from shardclock_server.gateway.routes.jobs import JobRequest
from shardclock_server.jobs.entry import FIELDS
from shardclock_server.sql.session import StoreUnavailable
from tests.support.factories import value
from tests.support.gateways import Api, serving
from tests.support.job_runs import declare
from tests.support.jobs import job_spec

REFRESH = {"function": "recurring:refresh", "every": "PT15M"}


def test_a_request_has_the_fields_of_a_job_in_a_file() -> None:
    assert {"name", *JobRequest.model_fields} == set(FIELDS)


async def test_a_job_is_made_changed_and_removed(dsn: str, api: Api) -> None:
    made = (await api.ask("PUT", "/v1/jobs/refresh-eu", {**REFRESH, "config": {"region": "eu"}})).json
    assert (made["name"], made["function"], made["every_s"]) == ("refresh-eu", "recurring:refresh", 900.0)
    assert made["config"] == {"region": "eu"}

    nightly = {"function": "recurring:refresh", "cron": "0 3 * * *", "zone": "Europe/Berlin", "priority": 1}
    changed = (await api.ask("PUT", "/v1/jobs/refresh-eu", nightly)).json
    assert (changed["schedule"], changed["zone"], changed["every_s"], changed["config"]) == (
        "0 3 * * *", "Europe/Berlin", None, {"region": "eu"},
    )  # fmt: skip
    assert changed["next_start"] is None, "no shard has planned it yet"

    assert (await api.ask("DELETE", "/v1/jobs/refresh-eu")).status == 204
    (await api.ask("DELETE", "/v1/jobs/refresh-eu")).assert_problem("not_found", 404, "refresh-eu")
    verbs = [it["verb"] for it in (await api.get("/v1/audit")).json["acts"]]
    assert verbs == ["jobs remove", "jobs remove", "jobs apply", "jobs apply"]


async def test_an_invalid_job_is_refused_and_not_stored(dsn: str, api: Api) -> None:
    for body, words in (
        ({}, ["function is missing"]),
        ({**REFRESH, "function": "nowhere"}, ["'nowhere'", "package.module:function"]),
        ({**REFRESH, "cron": "0 3 * * *"}, ["every", "cron"]),
        ({**REFRESH, "colour": "red"}, ["'colour' is not a field here"]),
    ):
        (await api.ask("PUT", "/v1/jobs/refresh-eu", body)).assert_problem("refused", 422, *words)
    (await api.put("/v1/jobs/refresh/config", {})).assert_problem("refused", 422, "config is missing; give it")
    assert await value(dsn, "select count(*) from shardclock.jobs") == 0


async def test_a_caller_without_a_free_slot_for_its_wait_starts_no_job(dsn: str) -> None:
    await declare(dsn, job_spec())
    async with serving(dsn, gateway_streams_max=0) as api:
        (await api.post("/v1/jobs/refresh/run?wait=PT5S")).assert_problem("unavailable", 503)

    assert await value(dsn, "select count(*) from shardclock.timers") == 0


async def test_if_the_wait_for_a_run_fails_the_answer_still_has_the_timer_key(
    dsn: str, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await declare(dsn, job_spec())

    async def fail(*_: object) -> None:
        raise StoreUnavailable("no answer")

    monkeypatch.setattr("shardclock_server.gateway.routes.jobs.last_run", fail)
    started = await api.post("/v1/jobs/refresh/run?wait=PT5S")

    assert (started.status, started.json["run"]) == (202, None)
    assert started.json["timer_key"] == await value(dsn, "select timer_key from shardclock.timers")
