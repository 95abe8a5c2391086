"""Test bulk operations over HTTP: progress, cancel, their continuation by a gateway, and the rights of a key."""

from __future__ import annotations

import pytest

from shardclock_server.service import bulk_change
from shardclock_server.service import keys as use_cases
from shardclock_server.service.bulk_change import BulkChange, ChangeKind
from shardclock_server.service.bulk_run import NO_PROGRESS
from shardclock_server.service.operation_verbs import CANCEL
from shardclock_server.service.operations import continue_operation
from shardclock_server.sql.clients.search import TimerFilter
from shardclock_server.sql.keys.keys import WantedKey
from shardclock_server.sql.operations.operations import find_due_operation
from shardclock_server.sql.session import Session
from tests.support.deliveries import HANDLER, bury, declare
from tests.support.factories import add_timers, query, value
from tests.support.gateways import Api, serving
from tests.support.operations import an_operator, ends_of
from tests.support.sql_client import session as opened

IN_A_DAY = "now() + interval '1 day'"


async def bearer(owner: Session, tenant: str | None, *scopes: str) -> dict[str, str]:
    """Make a key; return its header."""
    made = await use_cases.make(owner, WantedKey(tenant, "+".join(scopes), scopes))
    return {"Authorization": f"Bearer {made.text}"}


async def begun(dsn: str, tenant: str = "default") -> int:
    """Start an operation as a gateway does, and leave it unfinished: gateways continue it in an hour."""
    async with opened(dsn, "gateway") as gateway:
        bulk = BulkChange(an_operator(), TimerFilter(tenant_id=tenant), ChangeKind(CANCEL, ("PENDING",)))
        await bulk.find(gateway, NO_PROGRESS)
        await bulk.start(gateway, due_in_s=3_600.0)
    assert bulk.operation_id is not None
    return bulk.operation_id


async def test_a_bulk_change_is_an_operation_with_its_counts(dsn: str, api: Api) -> None:
    await add_timers(dsn, 3, IN_A_DAY, name="'order-' || i")
    asked = {"filter": {"name_prefix": "order-"}, "reason": "closed"}
    token = (await api.post("/v1/timers/bulk/cancel?dry_run=true", asked)).json["token"]

    done = (await api.post(f"/v1/timers/bulk/cancel?token={token}", asked)).json

    (listed,) = (await api.get("/v1/operations")).json["operations"]
    assert listed == (await api.get(f"/v1/operations/{done['operation_id']}")).json
    told = ("verb", "state", "filter", "parameters", "reason", "matched", "expected", "changed", "interface")
    assert {it: listed[it] for it in told} == {
        "verb": "cancel",
        "state": "DONE",
        "filter": {"name_prefix": "order-"},
        "parameters": {},
        "reason": "closed",
        "matched": 3,
        "expected": 3,
        "changed": 3,
        "interface": "api",
    }
    assert token not in str(listed)
    (act,) = (await api.get("/v1/audit")).json["acts"]
    assert (act["parameters"]["changed"], act["parameters"]["operation_id"]) == (3, listed["operation_id"])


async def test_an_operation_has_the_numbers_of_unchanged_rows_by_reason(dsn: str, api: Api) -> None:
    keys = await add_timers(dsn, 3, IN_A_DAY)
    number = await begun(dsn)
    await query(dsn, "select shardclock.cancel_timers($1)", keys[1:])
    await query(dsn, "update shardclock.operations set due_at = now()")
    async with opened(dsn, "gateway") as gateway:
        due = await find_due_operation(gateway)
        assert due is not None
        await continue_operation(gateway, due)

    found = (await api.get(f"/v1/operations/{number}")).json

    assert (found["changed"], found["unchanged"], found["unchanged_reasons"]) == (1, 2, {"timer_ended": 2})


async def test_the_audit_has_the_count_of_each_bulk_change_of_deliveries(dsn: str, api: Api) -> None:
    await declare(dsn, HANDLER)
    await bury(dsn, 4)
    await query(dsn, "update shardclock.dead_letters set tenant_id = 'default'")

    await api.post("/v1/dead-letters/redrive", {"target": HANDLER, "limit": 3})
    await query(dsn, "update shardclock.deliveries set next_attempt_at = now() + interval '1 h'")
    await api.post("/v1/deliveries/retry", {"every": True, "limit": 2})
    await api.post("/v1/dead-letters/discard", {"every": True})

    acts = (await api.get("/v1/audit")).json["acts"]
    assert [(act["verb"], act["parameters"]["changed"]) for act in reversed(acts)] == [
        ("dead-letters redrive", 3),
        ("deliveries retry", 2),
        ("dead-letters discard", 1),
    ]
    assert [(verb, changed) for verb, _, _, changed in await ends_of(dsn)] == [
        ("dead-letters redrive", 3),
        ("deliveries retry", 2),
        ("dead-letters discard", 1),
    ]


async def test_a_gateway_continues_an_operation_that_another_gateway_left(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_change, "PAGE_TIMERS", 2)
    await add_timers(dsn, 5, IN_A_DAY)
    await begun(dsn)
    await query(dsn, "update shardclock.operations set due_at = now()")

    async with serving(dsn), serving(dsn):
        assert await ends_of(dsn) == [("cancel", "DONE", 5, 5)]

    assert await value(dsn, "select count(*) from shardclock.command_log where intent = 'CANCELED'") == 5


async def test_a_cancelled_operation_leaves_the_rest(dsn: str, api: Api) -> None:
    await add_timers(dsn, 3, IN_A_DAY)
    number = await begun(dsn)
    (found,) = (await api.get("/v1/operations?state=running&verb=cancel")).json["operations"]
    assert (found["operation_id"], found["ended_at"]) == (number, None)

    ended = (await api.post(f"/v1/operations/{number}/cancel")).json

    assert (ended["state"], ended["matched"], ended["changed"]) == ("CANCELED", 3, 0)
    (await api.post(f"/v1/operations/{number}/cancel")).assert_problem("operation_ended", 409, "CANCELED already")
    (await api.get("/v1/operations/99")).assert_problem("unknown_operation", 404, "no operation 99")
    (await api.get("/v1/operations?state=odd")).assert_problem("invalid_state", 422, "'odd'", "INTERRUPTED")
    assert await value(dsn, "select count(*) from shardclock.timers") == 3
    (refused, act) = (await api.get("/v1/audit")).json["acts"]
    assert [(it["verb"], it["outcome"]) for it in (act, refused)] == [
        ("operations cancel", "done"),
        ("operations cancel", "not done"),
    ]
    assert act["parameters"] == {"operation_id": number}


async def test_a_tenant_sees_its_own_operations_without_the_names_of_operators(
    dsn: str, locked: Api, owner: Session
) -> None:
    await add_timers(dsn, 1, IN_A_DAY, tenant_id="'ada'")
    await add_timers(dsn, 1, IN_A_DAY, tenant_id="'bob'")
    adas, bobs = await begun(dsn, "ada"), await begun(dsn, "bob")
    key, operators = await bearer(owner, "ada", "write"), await bearer(owner, None, "read")

    (seen,) = (await locked.get("/v1/operations", **key)).json["operations"]
    assert (seen["operation_id"], seen["by_operator"], seen["role"], seen["key_name"]) == (adas, True, None, None)
    assert (await locked.get("/v1/operations?actor=test_gateway", **key)).json["operations"] == []
    for method, path in (("GET", f"/v1/operations/{bobs}"), ("POST", f"/v1/operations/{bobs}/cancel")):
        (await locked.ask(method, path, **key)).assert_problem("unknown_operation", 404)
    assert (await locked.get(f"/v1/operations/{bobs}", **operators)).json["role"] == "test_gateway"
    (await locked.post(f"/v1/operations/{bobs}/cancel", **operators)).assert_problem("not_allowed", 403)
    assert (await locked.post(f"/v1/operations/{adas}/cancel", **key)).status == 200


async def test_a_cancel_of_an_operation_of_dead_letters_needs_the_scope_operate(
    dsn: str, locked: Api, owner: Session
) -> None:
    await add_timers(dsn, 1, IN_A_DAY)
    number = await begun(dsn)
    await query(dsn, "update shardclock.operations set verb = 'dead-letters discard'")
    writer, operator = await bearer(owner, "default", "write"), await bearer(owner, "default", "operate")

    (await locked.post(f"/v1/operations/{number}/cancel", **writer)).assert_problem("not_allowed", 403, "scope operate")
    assert (await locked.post(f"/v1/operations/{number}/cancel", **operator)).status == 200
