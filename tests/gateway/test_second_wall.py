"""Test that a bug of the gateway shows no rows of another tenant, because Postgres checks the tenant again."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from starlette.datastructures import Headers

from shardclock_server.gateway.requests.callers import Anyone, Caller
from shardclock_server.service.keys import SCOPES
from shardclock_server.sql.served import Tenants
from tests.support.gateways import Api, Said, serving
from tests.support.tenant_rows import KEYS, SECRET, add_rows, rows_of_eve
from tools.openapi import PAGE

OURS = frozenset({"ada"})
ENDLESS = "/v1/log/stream"


class Mistaken(Caller):
    """A caller with a key of the tenant ada, but each route serves the tenant eve, as a faulty route would."""

    @property
    def tenants(self) -> Tenants:
        """The tenants of the key."""
        return OURS


class MistakenCallers(Anyone):
    """Authenticate each request as a tenant's administrator."""

    async def caller_of(self, headers: Headers) -> Caller:  # noqa: ARG002 - as in `Anyone`
        """Return a caller with requests for the tenant eve."""
        return Mistaken("eve", SCOPES, is_operator=False)


@asynccontextmanager
async def mistaken(dsn: str, role: str) -> AsyncIterator[Api]:
    async with serving(dsn, role=role) as api:
        api.app.state.gateway = replace(api.gateway, callers=MistakenCallers())
        yield api


def requests() -> Iterator[tuple[str, str, bytes, str]]:
    """Make a request of each route for an object of the tenant eve, from the route's example in the reference."""
    paths: dict[str, dict[str, Any]] = json.loads(PAGE.read_text(encoding="utf-8"))["paths"]
    for path, methods in paths.items():
        named = re.sub(r"\{\w+_key\}", str(KEYS["eve"]), path)
        named = re.sub(r"\{\w+\}", "n", named)
        for method, operation in methods.items():
            content: dict[str, dict[str, Any]] = operation.get("requestBody", {}).get("content", {})
            kind = next(iter(content), "application/json")
            body = content.get(kind, {}).get("example")
            text = body if isinstance(body, str) else "" if body is None else json.dumps(body)
            if path != ENDLESS:
                yield method.upper(), named, text.replace('"order-"', '"n"').replace("billing", "n").encode(), kind


async def ask_everything(api: Api) -> dict[tuple[str, str], Said]:
    return {
        (method, path): await api.ask(method, path, body or None, Content_Type=kind)
        for method, path, body, kind in requests()
    }


@pytest.mark.exhaustive
async def test_a_route_that_uses_the_wrong_tenant_neither_shows_nor_changes_that_tenants_rows(dsn: str) -> None:
    await add_rows(dsn)
    before = await rows_of_eve(dsn)

    async with mistaken(dsn, "gateway") as api:
        answers = await ask_everything(api)

    assert [asked for asked, said in answers.items() if SECRET.encode() in said.body] == []
    assert await rows_of_eve(dsn) == before


@pytest.mark.exhaustive
async def test_without_row_policies_a_route_that_uses_the_wrong_tenant_shows_and_changes_that_tenants_rows(
    dsn: str,
) -> None:
    await add_rows(dsn)
    before = await rows_of_eve(dsn)

    async with mistaken(dsn, "owner") as api:
        answers = await ask_everything(api)

    shown = {path for (method, path), said in answers.items() if method == "GET" and SECRET.encode() in said.body}
    assert shown >= {
        "/v1/timers", "/v1/timers/8", "/v1/timers/8/records", "/v1/log", "/v1/deliveries",
        "/v1/dead-letters", "/v1/endpoints", "/v1/endpoints/n", "/v1/processes", "/v1/instances", "/v1/tasks",
    }  # fmt: skip
    after = await rows_of_eve(dsn)
    changed = {table for table in before if after[table] != before[table]}
    assert changed >= {"timers", "endpoints", "deliveries", "messages"}


async def test_postgres_refuses_a_timer_of_another_tenant_than_the_callers(dsn: str) -> None:
    async with mistaken(dsn, "gateway") as api:
        (await api.post("/v1/timers", {"delay": "PT1H"})).assert_problem("broken", 500, "read the gateway's log")
    assert (await rows_of_eve(dsn))["timers"] == []


async def test_a_tenant_may_have_any_name(dsn: str) -> None:
    await add_rows(dsn)
    async with serving(dsn) as api:
        for tenant in ("*", "{ada,eve}", "a,d", 'a"b', "null", "it's", "\\", "\\'"):
            named = api.with_headers(Shardclock_Tenant=tenant)
            made = await named.post("/v1/timers", {"delay": "PT1H", "name": "mine"})
            assert made.status == 201
            assert [timer["name"] for timer in (await named.get("/v1/timers")).json["timers"]] == ["mine"]
