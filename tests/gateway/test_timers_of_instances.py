"""Test the responses to each kind of caller about the timers of jobs and processes."""

from __future__ import annotations

from shardclock_server.service import keys as use_cases
from shardclock_server.sql.keys.keys import WantedKey
from shardclock_server.sql.session import Session
from tests.support.factories import add_timers, query, value
from tests.support.gateways import Api
from tests.support.job_runs import declare
from tests.support.jobs import job_spec

IN_AN_HOUR = "now() + interval '1 hour'"
OF_INSTANCE = {"target": "'process:instance'", "process_instance_key": "1200", "name": "'process:1200:3:' || i"}
NAME = "/v1/timers/by-name/process:1200:3:1"


async def with_key(api: Api, owner: Session, tenant: str | None, scope: str) -> Api:
    made = await use_cases.make(owner, WantedKey(tenant, f"{tenant} {scope}", (scope,)))
    return api.with_headers(Authorization=f"Bearer {made.text}")


async def test_no_client_request_changes_a_timer_of_an_instance(dsn: str, api: Api) -> None:
    (key,) = await add_timers(dsn, 1, IN_AN_HOUR, **OF_INSTANCE)

    for path in (f"/v1/timers/{key}", NAME):
        for verb in ("cancel", "pause", "resume", "run"):
            refused = await api.post(f"{path}/{verb}")
            refused.assert_problem("conflict", 409, f"timer {key} belongs to instance 1200", "shardclock operate")
        refused = await api.patch(path, {"shift": "PT1H"})
        refused.assert_problem("conflict", 409, f"timer {key} belongs to instance 1200")


async def test_an_operators_change_of_an_instances_timer_is_audited(dsn: str, api: Api) -> None:
    (key,) = await add_timers(dsn, 1, IN_AN_HOUR, **OF_INSTANCE)

    paused = await api.post(f"/v1/timers/{key}/operate", {"verb": "pause", "reason": "month-end"})
    assert (paused.status, paused.json["state"]) == (200, "PAUSED")
    moved = await api.post(f"{NAME}/operate", {"verb": "reschedule", "shift": "PT1H"})
    assert (moved.status, moved.json["state"]) == (200, "RESCHEDULED")
    assert (await api.post(f"{NAME}/operate", {"verb": "resume"})).json["state"] == "PENDING"

    acts = (await api.get("/v1/audit")).json["acts"]
    assert [(act["verb"], act["parameters"]["verb"], act["outcome"]) for act in reversed(acts)] == [
        ("operate", "pause", "done"), ("operate", "reschedule", "done"), ("operate", "resume", "done"),
    ]  # fmt: skip
    wrong = await api.post(f"/v1/timers/{key}/operate", {"verb": "cancel"})
    wrong.assert_problem("refused", 422, "verb 'cancel' is unknown")


async def test_a_tenants_key_can_neither_read_nor_move_a_jobs_timer(dsn: str, locked: Api, owner: Session) -> None:
    """A key of the tenant `default` neither moves a job nor sees its timer and the reasons of operators."""
    await declare(dsn, job_spec(every_s=3600.0))
    await query(dsn, "select shardclock.change_system_timer('pause', name => 'job:refresh', reason => 'a secret')")
    await query(dsn, "select shardclock.schedule_timer(delay => 'PT1H', name => 'own')")
    await query(dsn, "select shardclock.cancel_timer(name => 'own')")
    key = await value(dsn, "select timer_key from shardclock.timers where name = 'job:refresh'")
    own, overseer, operator = (
        await with_key(locked, owner, "default", "operate"),
        await with_key(locked, owner, None, "read"),
        await with_key(locked, owner, None, "operate"),
    )

    for path in (f"/v1/timers/{key}", "/v1/timers/by-name/job:refresh"):
        for verb in ("cancel", "pause", "resume", "run"):
            (await own.post(f"{path}/{verb}")).assert_problem("conflict", 409, "starts job 'refresh'")
        refused = await own.post(f"{path}/operate", {"verb": "resume"})
        refused.assert_problem("not_allowed", 403, "--all-tenants")
        for look in ("", "/records", "/explanation", "/end"):
            assert (await own.get(f"{path}{look}")).status == 404
            assert (await overseer.get(f"{path}{look}")).status in (200, 204)
    (await own.post("/v1/timers", {"delay": "PT1H", "target": "job:refresh"})).assert_problem(
        "refused", 422, "reserved"
    )
    for api, names in ((own, {"own"}), (overseer, {"own", "job:refresh"})):
        assert {record["name"] for record in (await api.get("/v1/log")).json["records"]} == names
    assert (await own.get("/v1/timers?state=paused")).json["timers"] == []
    assert len((await overseer.get("/v1/timers?state=paused")).json["timers"]) == 1
    assert (await operator.post(f"/v1/timers/{key}/operate", {"verb": "resume"})).json["state"] == "PENDING"
