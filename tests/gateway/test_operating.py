"""Test operators' routes of the HTTP API: dead letters, endpoints, deliveries, jobs and the cluster."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.deliveries import HANDLER, deliver, failed, let_die, serving_worker
from tests.support.factories import BOUND_S, HolderClient, add_holder, query, value
from tests.support.gateways import Api, serving
from tests.support.job_runs import declare as declare_jobs
from tests.support.jobs import job_spec
from tests.support.receivers import receiving
from tests.support.waiting import eventually

URL = "https://billing.example.com/hooks"


@pytest.fixture
async def letters(dsn: str) -> list[int]:
    """Make three dead letters, one after the other; return their keys."""
    return await let_die(dsn, 3)


async def test_dead_letters_are_listed_redriven_and_discarded(dsn: str, api: Api, letters: list[int]) -> None:
    first = (await api.get(f"/v1/dead-letters?target={HANDLER}&limit=2")).json
    second = (await api.get(f"/v1/dead-letters?limit=2&after={first['next']}")).json
    assert [letter["timer_key"] for letter in (*first["dead_letters"], *second["dead_letters"])] == letters[::-1]
    (await api.get("/v1/dead-letters?after=7")).assert_problem("refused", 422, "'7' is not the `next` of a page")
    would = (await api.post("/v1/dead-letters/redrive?dry_run=true", {"every": True, "limit": 2})).json
    assert (len(would["timer_keys"]), would["more"]) == (2, True)
    for body in ({"limit": 0}, {"per_s": -1}, {"died_before": "soon"}, {"colour": 1}):
        (await api.post("/v1/dead-letters/redrive", body)).assert_problem("refused", 422, next(iter(body)))
    assert await value(dsn, "select count(*) from shardclock.dead_letters") == 3
    one = (await api.post(f"/v1/dead-letters/{letters[0]}/redrive", {"enable": True})).json
    assert one["timer_keys"] == letters[:1]
    (await api.post(f"/v1/dead-letters/{letters[0]}/redrive")).assert_problem("not_found", 404, str(letters[0]))
    rest = (await api.post("/v1/dead-letters/discard", {"every": True, "reason": "obsolete"})).json
    assert sorted(rest["timer_keys"]) == letters[1:]
    assert await value(dsn, "select count(*) from shardclock.dead_letters") == 0


async def test_a_signal_that_an_instance_waits_for_is_not_discarded(dsn: str, api: Api, letters: list[int]) -> None:
    instance = "insert into shardclock.instances (instance_key, definition_key, version, tenant_id, process_id, state)"
    await query(dsn, f"{instance} values (7, 1, 1, 'default', 'order', '')")
    await query(dsn, "update shardclock.dead_letters set target = 'process:instance', process_instance_key = 7")

    done = await api.post(f"/v1/dead-letters/{letters[0]}/discard")

    done.assert_problem("dead_letter_awaited", 409, f"dead letter {letters[0]} is a signal that an instance waits for")
    assert await value(dsn, "select count(*) from shardclock.dead_letters") == 3


async def test_another_tenants_dead_letters_are_not_found(dsn: str, api: Api, letters: list[int]) -> None:
    eve = {"Shardclock_Tenant": "eve"}
    assert (await api.get("/v1/dead-letters", **eve)).json["dead_letters"] == []
    for verb in ("redrive", "discard"):
        (await api.post(f"/v1/dead-letters/{letters[0]}/{verb}", **eve)).assert_problem("not_found", 404)
        assert (await api.post(f"/v1/dead-letters/{verb}", {"every": True}, **eve)).json["timer_keys"] == []
    assert await value(dsn, "select count(*) from shardclock.dead_letters") == 3


async def test_a_request_without_a_filter_changes_nothing_unless_it_has_the_parameter_every(
    dsn: str, api: Api, letters: list[int]
) -> None:
    for path, meant in (
        ("dead-letters/discard", "select any dead letters; give target, died_before or reason_line"),
        ("dead-letters/redrive", "select any dead letters; give target, died_before or reason_line"),
        ("deliveries/retry", "select any deliveries; give target, failing or reason_line"),
    ):
        sentence = f'the request does not {meant}, or "every": true for all'
        for query_text, body in (("", None), ("", {"limit": 7}), ("?dry_run=true", {})):
            (await api.post(f"/v1/{path}{query_text}", body)).assert_problem("refused", 422, sentence)
        assert (await api.post(f"/v1/{path}", {"target": "other"})).json["timer_keys"] == []
    assert await value(dsn, "select count(*) from shardclock.dead_letters") == len(letters)


async def test_the_last_attempts_of_an_endpoint_are_shown_to_its_tenant(dsn: str, api: Api) -> None:
    await api.post("/v1/endpoints", {"name": "billing", "url": URL})
    text = """
        insert into shardclock.endpoint_attempts (
            tenant_id, name, timer_key, attempt, ended_at, status, duration_ms, failure, body
        )
        select 'default', 'billing', i, 1, now() + i * interval '1 s', 503, 12, 'answered 503', '<b>busy</b>'
        from generate_series(1, 25) i
    """
    await query(dsn, text)

    found = (await api.get("/v1/endpoints/billing/attempts")).json["attempts"]

    assert [it["timer_key"] for it in found] == list(range(25, 5, -1))
    shown = {name: found[0][name] for name in ("attempt", "status", "duration_ms", "failure", "body")}
    assert shown == {
        "attempt": 1, "status": 503, "duration_ms": 12, "failure": "answered 503", "body": "<b>busy</b>",
    }  # fmt: skip
    for name, tenant in (("nobody", "default"), ("billing", "acme")):
        other = await api.get(f"/v1/endpoints/{name}/attempts", Shardclock_Tenant=tenant)
        other.assert_problem("not_found", 404, repr(name))


async def test_an_endpoint_is_added_changed_rotated_disabled_enabled_and_removed(dsn: str, api: Api) -> None:
    added = await api.post("/v1/endpoints", {"name": "billing", "url": URL, "headers": {"x-shop": "7"}})
    assert (added.status, added.json["secret"][:6]) == (201, "whsec_")
    again = await api.post("/v1/endpoints", {"name": "billing", "url": URL})
    again.assert_problem("conflict", 409, "'billing'", "another name")
    (listed,) = (await api.get("/v1/endpoints")).json["endpoints"]
    assert (listed["target"], listed["url"], "x-shop" in str(listed)) == ("webhook:billing", URL, False)

    changed = await api.patch("/v1/endpoints/billing", {"url": f"{URL}/2", "policy": {"concurrency": 7}})
    assert changed.json["changed"]
    found = (await api.get("/v1/endpoints/billing")).json
    assert (found["url"], found["policy"]["concurrency"]) == (f"{URL}/2", 7)
    assert (await api.post("/v1/endpoints/billing/rotate")).json["secret"] != added.json["secret"]
    assert (await api.post("/v1/endpoints/billing/end-rotation")).json["changed"]
    assert (await api.post("/v1/timers", {"delay": "PT1H", "target": "webhook:billing"})).status == 201
    named = await api.post("/v1/endpoints/billing/disable")
    named.assert_problem("conflict", 409, "1 pending timer", "force=true")
    assert (await api.post("/v1/endpoints/billing/disable?force=true", {"reason": "moved"})).status == 200
    assert (await api.get("/v1/endpoints/billing")).json["disabled_why"] == "moved"
    assert (await api.post("/v1/endpoints/billing/enable")).json["changed"]
    assert (await api.ask("DELETE", "/v1/endpoints/billing?force=true")).status == 200
    (await api.get("/v1/endpoints/billing")).assert_problem("not_found", 404, "'billing'")


async def test_an_invalid_endpoint_is_not_added(api: Api) -> None:
    for body, words in (
        ({"name": "Bil ling", "url": URL}, "'Bil ling'"),
        ({"name": "billing", "url": URL, "policy": {"colour": 0}}, "policy.colour"),
    ):
        (await api.post("/v1/endpoints", body)).assert_problem("refused", 422, words)
    assert (await api.get("/v1/endpoints")).json["endpoints"] == []


async def test_another_tenants_endpoint_is_not_found(api: Api) -> None:
    await api.post("/v1/endpoints", {"name": "billing", "url": URL})
    eve = {"Shardclock_Tenant": "eve"}
    for method, path in (("GET", ""), ("PATCH", ""), ("DELETE", ""), ("POST", "/disable"), ("POST", "/rotate")):
        done = await api.ask(method, f"/v1/endpoints/billing{path}", {"url": URL} if method == "PATCH" else None, **eve)
        done.assert_problem("not_found", 404)


async def test_deliveries_are_listed_retried_and_cancelled(dsn: str, api: Api) -> None:
    await add_holder(dsn, 1)
    async with HolderClient(dsn, holder=1) as shard, serving_worker(dsn) as worker:
        keys = [*await deliver(shard), *await deliver(shard)]
        await worker.settle(*map(failed, await worker.take()))

    listed = (await api.get(f"/v1/deliveries?target={HANDLER}&failing=true&limit=1")).json
    assert (len(listed["deliveries"]), listed["deliveries"][0]["failed_attempts"]) == (1, 1)
    more = (await api.get(f"/v1/deliveries?limit=1&after={listed['next']}")).json["deliveries"]
    assert {listed["deliveries"][0]["timer_key"], more[0]["timer_key"]} == set(keys)
    eve = {"Shardclock_Tenant": "eve"}
    (await api.post(f"/v1/deliveries/{keys[0]}/cancel", **eve)).assert_problem("not_found", 404)
    assert (await api.post("/v1/deliveries/retry", {"every": True}, **eve)).json["timer_keys"] == []
    assert (await api.post(f"/v1/deliveries/{keys[0]}/retry")).json["state"] == "DUE"
    assert (await api.post("/v1/deliveries/retry", {"failing": True})).json["timer_keys"] == keys[1:]
    assert (await api.post(f"/v1/deliveries/{keys[0]}/cancel", {"reason": "paid"})).json["state"] == "DISCARDED"
    late = await api.post(f"/v1/deliveries/{keys[0]}/retry")
    late.assert_problem("too_late", 409, "DISCARDED already")


async def test_a_job_is_shown_configured_started_and_disabled(dsn: str, api: Api) -> None:
    await declare_jobs(dsn, job_spec(every_s=3600.0))

    (job,) = (await api.get("/v1/jobs")).json["jobs"]
    assert (job["name"], job["every_s"]) == ("refresh", 3600.0)
    configured = await api.put("/v1/jobs/refresh/config", {"config": {"since": 7}})
    assert configured.json["config"] == {"since": 7}
    started = await api.post("/v1/jobs/refresh/run")
    assert started.status == 202
    assert (await api.get(f"/v1/timers/{started.json['timer_key']}")).status == 200
    assert (await api.post("/v1/jobs/refresh/disable", {"reason": "strike"})).json["state"] == "DISABLED"
    assert (await api.get("/v1/jobs/refresh")).json["disabled_why"] == "strike"
    assert (await api.post("/v1/jobs/refresh/enable")).json["state"] != "DISABLED"
    assert (await api.get("/v1/jobs/refresh/runs")).json["runs"] == []


async def test_an_unknown_job_is_not_found_and_the_problem_names_the_most_similar_job(dsn: str, api: Api) -> None:
    await declare_jobs(dsn, job_spec(every_s=3600.0))

    for method, path in (("GET", ""), ("GET", "/runs"), ("POST", "/run"), ("POST", "/disable"), ("POST", "/enable")):
        done = await api.ask(method, f"/v1/jobs/refersh{path}")
        done.assert_problem("not_found", 404, "refresh", "meant")


async def test_the_api_shows_the_same_cluster_state_as_the_commands_status_and_forecast(dsn: str, api: Api) -> None:
    await add_holder(dsn, 11)
    await api.post("/v1/timers", {"delay": "PT5M"})

    shown = (await api.get("/v1/cluster")).json
    assert (shown["pending"], shown["overdue"], shown["hold"]) == (1, 0, None)
    assert [keeper["holder"] for keeper in shown["shards"]] == [f"{11:016x}"]
    assert sum(shown["timers_per_minute"]) == 1
    assert (shown["engines_wanted"], shown["engines"], shown["signals_waiting"], shown["incidents"]) == (0, [], 0, 0)


async def test_a_test_of_a_silent_endpoint_holds_no_session(dsn: str) -> None:
    async def say_nothing(*_: object) -> None:
        await asyncio.sleep(BOUND_S)

    async with (
        receiving(say_nothing) as receiver,
        serving(dsn, webhook_http=True, webhook_allow="127.0.0.0/8", gateway_sessions=2, gateway_wait_s=0.5) as api,
    ):
        url = f"http://127.0.0.1:{receiver.port}/hook"
        added = await api.post("/v1/endpoints", {"name": "mute", "url": url, "policy": {"timeout_s": 1}})
        assert added.status == 201, added
        tests = [asyncio.create_task(api.post("/v1/endpoints/mute/test")) for _ in range(4)]
        await eventually(lambda: receiver.connections == 4)
        assert (await api.post("/v1/timers", {"delay": "PT1H"}, Shardclock_Tenant="bob")).status == 201
        assert not any(test.done() for test in tests)
        for test in tests:
            assert (await test).json["delivered"] is False
