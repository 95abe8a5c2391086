"""Test the rights of a key, and that no web page can use a gateway without keys."""

from __future__ import annotations

import asyncio
import json
import re

import aiohttp
import pytest

from shardclock_server.gateway.requests.key_lookups import KNOWN_S
from shardclock_server.service import keys as use_cases
from shardclock_server.sql.keys.keys import WantedKey
from shardclock_server.sql.session import Session
from tests.support.factories import BOUND_S, pending_rows
from tests.support.gateways import Api, serving
from tools.openapi import PAGE

HOUR = {"delay": "PT1H"}
# One path and one body for each route, by the scope that the route needs.
NEEDS = {
    "read": [
        ("GET", "/v1/timers"), ("GET", "/v1/timers/7"), ("GET", "/v1/timers/7/records"), ("GET", "/v1/timers/7/end"),
        ("GET", "/v1/timers/7/explanation"), ("GET", "/v1/timers/by-name/n"), ("GET", "/v1/log"),
        ("GET", "/v1/timers/by-name/n/records"), ("GET", "/v1/timers/by-name/n/end"),
        ("GET", "/v1/timers/by-name/n/explanation"), ("GET", "/v1/schedules/preview"), ("GET", "/v1/log/stream"),
        ("GET", "/v1/schedules"), ("GET", "/v1/schedules/by-name/n"), ("GET", "/v1/schedules/refused"),
        ("GET", "/v1/dead-letters"), ("GET", "/v1/dead-letters/groups"),
        ("GET", "/v1/deliveries"), ("GET", "/v1/endpoints"), ("GET", "/v1/endpoints/n"),
        ("GET", "/v1/endpoints/n/attempts"), ("GET", "/v1/notify"),
        ("GET", "/v1/targets"), ("GET", "/v1/deliveries/7"),
        ("GET", "/v1/processes"), ("GET", "/v1/processes/7/model"), ("GET", "/v1/instances"),
        ("GET", "/v1/instances/7"), ("GET", "/v1/instances/7/steps"),
        ("GET", "/v1/tasks"), ("GET", "/v1/tasks/7"), ("GET", "/v1/incidents"), ("GET", "/v1/operations"),
        ("GET", "/v1/operations/7"),
        ("GET", "/v1/jobs"), ("GET", "/v1/jobs/n"), ("GET", "/v1/jobs/n/runs"), ("GET", "/v1/jobs/n/runs/7"),
    ],
    "write": [
        ("POST", "/v1/timers"), ("PUT", "/v1/timers/by-name/n"), ("PATCH", "/v1/timers/7"), ("POST", "/v1/timers/bulk"),
        ("PATCH", "/v1/timers/by-name/n"),
        *(("POST", f"/v1/timers/{which}/{verb}")
          for which in ("7", "by-name/n") for verb in ("cancel", "pause", "resume", "run")),
        *(("POST", f"/v1/timers/bulk/{verb}") for verb in ("cancel", "pause", "resume", "shift")),
        ("POST", "/v1/processes/n/start"), ("POST", "/v1/instances/7/cancel"), ("POST", "/v1/instances/7/variables"),
        ("POST", "/v1/instances/cancel"), ("POST", "/v1/operations/7/cancel"),
        ("POST", "/v1/messages"), ("POST", "/v1/signals"), ("POST", "/v1/tasks/7/claim"),
        ("POST", "/v1/tasks/7/unclaim"), ("POST", "/v1/tasks/7/complete"), ("POST", "/v1/service-tasks/activate"),
        *(("POST", f"/v1/service-tasks/7/{verb}") for verb in ("extend", "complete", "fail", "throw")),
    ],
    "operate": [
        ("POST", "/v1/dead-letters/redrive"), ("POST", "/v1/dead-letters/discard"),
        ("POST", "/v1/dead-letters/7/redrive"), ("POST", "/v1/dead-letters/7/discard"),
        ("POST", "/v1/deliveries/retry"), ("POST", "/v1/deliveries/7/retry"), ("POST", "/v1/deliveries/7/cancel"),
        ("POST", "/v1/endpoints"), ("POST", "/v1/processes"), ("DELETE", "/v1/processes/7"),
        ("POST", "/v1/instances/7/resolve"), ("POST", "/v1/instances/7/move"), ("POST", "/v1/incidents/resolve"),
        ("PATCH", "/v1/endpoints/n"), ("DELETE", "/v1/endpoints/n"), ("PUT", "/v1/notify/n"),
        ("DELETE", "/v1/notify/n"), ("POST", "/v1/notify/n/test"),
        *(("POST", f"/v1/endpoints/n/{verb}")
          for verb in ("disable", "enable", "rotate", "end-rotation", "test")),
        ("GET", "/v1/consumers"), ("POST", "/v1/consumers/n/lease"), ("POST", "/v1/consumers/n/acknowledge"),
        ("POST", "/v1/consumers/n/seek"), ("DELETE", "/v1/consumers/n"), ("GET", "/v1/cluster"),
        ("GET", "/v1/cluster/forecast"), ("GET", "/v1/cluster/scale"), ("PUT", "/v1/cluster/scale/n"),
        ("PUT", "/v1/cluster/ramp"), ("POST", "/v1/cluster/hold"), ("POST", "/v1/cluster/release"),
        ("PUT", "/v1/jobs/n/config"), ("PUT", "/v1/jobs/n"), ("DELETE", "/v1/jobs/n"),
        ("POST", "/v1/timers/7/operate"), ("POST", "/v1/timers/by-name/n/operate"),
        *(("POST", f"/v1/jobs/n/{verb}") for verb in ("run", "cancel", "disable", "enable")),
    ],
    "admin": [
        ("GET", "/v1/tenants"), ("GET", "/v1/tenants/n"), ("PUT", "/v1/tenants/n"), ("DELETE", "/v1/tenants/n"),
        ("GET", "/v1/audit"),
    ],
}  # fmt: skip
ROUTES = [(scope, method, path) for scope, routes in NEEDS.items() for method, path in routes]


def test_the_reference_names_the_scope_that_each_route_needs() -> None:
    said = {
        (method.upper(), re.sub(r"\{\w+\}", "X", path)): operation["security"][0]["key"][0]
        for path, methods in json.loads(PAGE.read_text(encoding="utf-8"))["paths"].items()
        for method, operation in methods.items()
        if "security" in operation
    }
    needed = {(method, re.sub(r"/(7|n)(?=/|$)", "/X", path)): scope for scope, method, path in ROUTES}
    assert said == needed


async def key_of(owner: Session, tenant: str | None, *scopes: str) -> str:
    """Make a key, and return its text."""
    made = await use_cases.make(owner, WantedKey(tenant, f"{tenant} {'+'.join(scopes)}", scopes))
    return made.text


def bearing(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


async def test_a_keys_tenant_is_the_requests_tenant(dsn: str, locked: Api, owner: Session) -> None:
    key = await key_of(owner, "ada", "write")

    assert (await locked.post("/v1/timers", HOUR, **bearing(key))).status == 201
    assert [row["tenant_id"] for row in await pending_rows(dsn)] == ["ada"]
    other = await locked.post("/v1/timers", HOUR, Shardclock_Tenant="bob", **bearing(key))
    other.assert_problem("not_found", 404, "'bob'")


async def test_an_operators_key_acts_for_the_tenant_in_the_header(dsn: str, locked: Api, owner: Session) -> None:
    key = await key_of(owner, None, "admin")

    for tenant in ("ada", "bob"):
        assert (await locked.post("/v1/timers", HOUR, Shardclock_Tenant=tenant, **bearing(key))).status == 201
    assert sorted(row["tenant_id"] for row in await pending_rows(dsn)) == ["ada", "bob"]
    assert (await locked.get("/v1/jobs", **bearing(key))).status == 200


async def test_a_read_only_key_for_all_tenants_can_list_jobs_and_start_no_job(locked: Api, owner: Session) -> None:
    key = await key_of(owner, None, "read")

    assert (await locked.get("/v1/jobs", **bearing(key))).json == {"jobs": []}
    (await locked.get("/v1/jobs/n/runs", **bearing(key))).assert_problem("not_found", 404, "'n'")
    (await locked.post("/v1/jobs/n/run", **bearing(key))).assert_problem("not_allowed", 403, "no scope operate")


async def test_requests_without_a_known_key_are_refused(dsn: str, locked: Api) -> None:
    unknown = "Bearer sck_aaaaaaaa_" + "A" * 43
    for given in ("", "Bearer", "Bearer ", "Basic abc", "Bearer sck_", unknown, "Bearer " + "x" * 9_000):
        headers = {"Authorization": given} if given else {}
        for method, path in (("POST", "/v1/timers"), ("GET", "/v1/timers")):
            done = await locked.ask(method, path, HOUR if method == "POST" else None, **headers)
            done.assert_problem("no_key", 401)
            assert done.headers["WWW-Authenticate"].startswith("Bearer")
    assert await pending_rows(dsn) == []


async def test_each_route_needs_its_scope_and_a_key(locked: Api, owner: Session) -> None:
    below = {"write": "read", "operate": "write", "admin": "operate"}
    less = {scope: await key_of(owner, None, lower) for scope, lower in below.items()}
    for scope, method, path in ROUTES:
        (await locked.ask(method, path)).assert_problem("no_key", 401)
        if scope in less:
            done = await locked.ask(method, path, {}, **bearing(less[scope]))
            done.assert_problem("not_allowed", 403, f"no scope {scope}")


async def test_the_table_of_scopes_has_each_route_of_the_reference(locked: Api) -> None:
    paths = (await locked.get("/openapi.json")).json["paths"]
    described = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    tried = {(method, _template(path)) for _, method, path in ROUTES}
    assert described - tried == {("GET", "/healthz"), ("GET", "/readyz")}
    assert tried - described == set()


def _template(path: str) -> str:
    """Convert a path to its form in the reference."""
    path = path.replace("/consumers/n", "/consumers/{group}").replace("/by-name/n", "/by-name/{name}")
    path = path.replace("/tenants/n", "/tenants/{tenant}").replace("/scale/n", "/scale/{role}")
    path = path.replace("/processes/7", "/processes/{definition_key}").replace(
        "/operations/7", "/operations/{operation_id}"
    )
    path = path.replace("/instances/7", "/instances/{instance_key}").replace("tasks/7", "tasks/{task_key}")
    return re.sub(r"/(jobs|endpoints|processes|notify)/n\b", r"/\1/{name}", path).replace("/7", "/{timer_key}")


async def test_a_tenants_key_may_not_use_operators_routes(locked: Api, owner: Session) -> None:
    key = await key_of(owner, "ada", "admin")
    for _, method, path in ROUTES:
        if not path.startswith(("/v1/jobs", "/v1/cluster", "/v1/consumers", "/v1/tenants", "/v1/audit")):
            continue  # on these paths each tenant has its own objects
        (await locked.ask(method, path, {}, **bearing(key))).assert_problem("not_allowed", 403, "--all-tenants")


async def test_a_key_does_not_find_another_tenants_timers(dsn: str, locked: Api, owner: Session) -> None:
    ours, theirs = await key_of(owner, "ada", "admin"), await key_of(owner, "eve", "admin")
    made = await locked.post("/v1/timers", {**HOUR, "name": "n"}, **bearing(ours))
    timer_key = str(made.json["timer_key"])

    for _, method, path in ROUTES:
        if method == "PUT" or not ("/timers/7" in path or "by-name" in path):
            continue
        body = {"delay": "PT2H"} if method == "PATCH" else {} if method == "POST" else None
        if path.endswith("operate"):
            body = {"verb": "pause"}
        done = await locked.ask(method, path.replace("7", timer_key), body, **bearing(theirs))
        done.assert_problem("not_found", 404)
    (row,) = await pending_rows(dsn)
    assert (row["tenant_id"], row["paused_due_date"]) == ("ada", None)


async def test_a_revoked_or_expired_key_is_refused_within_seconds(
    locked: Api, owner: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 1_000.0
    monkeypatch.setattr("shardclock_server.gateway.requests.key_lookups.time.monotonic", lambda: now_s)
    key = await key_of(owner, "ada", "read")
    assert (await locked.get("/v1/timers", **bearing(key))).status == 200
    await use_cases.revoke(owner, key.split("_")[1])

    assert (await locked.get("/v1/timers", **bearing(key))).status == 200  # the gateway has cached the key
    now_s += KNOWN_S + 0.1
    (await locked.get("/v1/timers", **bearing(key))).assert_problem("no_key", 401)


async def test_no_web_page_can_use_a_gateway_without_keys(dsn: str, api: Api) -> None:
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Host": "evil.example"},
        {"Host": "evil.example:9841"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "foo@127.0.0.1"},
        {"Host": "evil.example:80@localhost:9841"},
        {"Host": "localhost/evil.example"},
        {"Host": "localhost?evil.example"},
        {"Host": "localhost#evil.example"},
        {"Host": "localhost\\evil.example"},
        {"Origin": "http://evil.example@127.0.0.1"},
        {"Origin": "http://localhost.evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": " Cross-Site "},
        {"Sec-Fetch-Site": "same-origin, cross-site"},
        {"Sec-Fetch-Site": "unheard-of"},
    ):
        (await api.post("/v1/timers", HOUR, **headers)).assert_problem("not_allowed", 403, "this machine")
        for path in ("/v1/timers", "/v1/schedules/preview?rule=R/P1D", "/v1/log/stream"):
            (await api.get(path, **headers)).assert_problem("not_allowed", 403, "this machine")
    assert await pending_rows(dsn) == []


async def test_programs_and_pages_of_this_machine_can_use_a_gateway_without_keys(api: Api) -> None:
    for headers in (
        {"Host": "localhost:9841"}, {"Host": "[::1]:9841"}, {"Origin": "http://127.0.0.1:80"},
        {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"},
    ):  # fmt: skip
        assert (await api.post("/v1/timers", HOUR, **headers)).status == 201, headers


async def test_an_invalid_tenant_name_is_refused(dsn: str, api: Api) -> None:
    for tenant in ("", "x" * 201, "a\tb"):
        done = await api.post("/v1/timers", HOUR, Shardclock_Tenant=tenant)
        done.assert_problem("refused", 422, "Shardclock-Tenant")
    assert await pending_rows(dsn) == []


async def test_a_revoked_key_ends_its_open_streams(locked: Api, owner: Session) -> None:
    key = await key_of(owner, "ada", "write")
    async with (
        asyncio.timeout(BOUND_S),
        aiohttp.ClientSession() as session,
        session.get(f"{locked.url}/v1/log/stream", headers=bearing(key)) as stream,
    ):
        assert await stream.content.readline() == b": the log follows\n"
        await use_cases.revoke(owner, key.split("_")[1])
        assert await stream.read() == b"\n"  # read until the stream ends


async def test_no_other_web_page_can_use_a_gateway_with_keys_even_with_a_key(dsn: str, owner: Session) -> None:
    key = bearing(await key_of(owner, "ada", "write"))
    async with serving(dsn, needs_keys=True, gateway_url="https://ops.example/timers") as api:
        for origin in (
            "https://evil.example",
            "null",
            "",
            "http://127.0.0.1:1",
            "https://evil.example@ops.example",
            "chrome-extension://abc",
        ):
            posted = await api.post("/v1/timers", HOUR, Origin=origin, **key)
            posted.assert_problem("not_allowed", 403, "another website")
            (await api.get("/v1/timers", Origin=origin, **key)).assert_problem(
                "not_allowed", 403, "SHARDCLOCK_GATEWAY_URL"
            )
    assert await pending_rows(dsn) == []


async def test_programs_probes_and_the_gateways_pages_may_use_any_name_of_a_gateway_with_keys(
    dsn: str, owner: Session
) -> None:
    key = bearing(await key_of(owner, "ada", "write"))
    async with serving(dsn, needs_keys=True, gateway_url="https://ops.example/timers") as api:
        for headers in (
            {"Host": "10.1.2.3:9841"},
            {"Host": "shardclock-gateway.shardclock"},
            {"Origin": "https://ops.example"},
            {"Host": "shardclock-gateway", "Origin": "http://shardclock-gateway"},
        ):
            assert (await api.post("/v1/timers", HOUR, **headers, **key)).status == 201
        assert (await api.get("/readyz", Host="10.1.2.3:9841")).status == 200
