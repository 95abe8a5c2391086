"""Test that a tenant at its quota may still replace its timers, and that a replaced timer is counted correctly."""

from __future__ import annotations

import asyncio
from unittest import mock

import pytest

from shardclock_server.gateway.limits import timer_quotas
from shardclock_server.gateway.limits.quotas import STALE_S
from shardclock_server.sql.session import StoreUnavailable
from tests.support.factories import query, value
from tests.support.gateways import Api, canceled, serving
from tests.support.quotas import ACME, HOUR, limit


async def test_a_tenant_at_its_quota_may_replace_timers_but_not_add_timers(dsn: str, api: Api) -> None:
    await limit(dsn, timers_max=2)
    for name in ("a", "b"):
        assert (await api.put(f"/v1/timers/by-name/{name}", HOUR, **ACME)).status == 201

    for _ in range(3):
        replaced = await api.put("/v1/timers/by-name/a", {"delay": "PT2H", "payload": 1}, **ACME)
        assert replaced.status == 200, replaced
    posted = await api.post("/v1/timers", {**HOUR, "name": "b", "on_conflict": "replace", "payload": 2}, **ACME)
    ignored = await api.post("/v1/timers", {**HOUR, "name": "b", "on_conflict": "ignore"}, **ACME)

    assert [posted.json["outcome"], ignored.json["outcome"]] == ["replaced", "unchanged"]
    (await api.put("/v1/timers/by-name/c", HOUR, **ACME)).assert_problem("over_quota", 429, "2 pending timers")
    (await api.post("/v1/timers", {**HOUR, "name": "a"}, **ACME)).assert_problem("over_quota", 429)
    assert await value(dsn, "select count(*) from shardclock.timers") == 2


async def test_concurrent_replacements_and_creates_never_exceed_the_quota(dsn: str, api: Api) -> None:
    await limit(dsn, timers_max=5)
    for n in range(4):
        await api.put(f"/v1/timers/by-name/n{n}", HOUR, **ACME)

    done = await asyncio.gather(
        *(api.put(f"/v1/timers/by-name/n{n % 8}", {**HOUR, "payload": n}, **ACME) for n in range(40))
    )

    assert {it.status for n, it in enumerate(done) if n % 8 < 4} == {200}
    # A replacement reserves quota for a short time: if the replaced timer ends in this time, the replacement needs
    # quota.
    assert await value(dsn, "select count(*) from shardclock.timers") in (4, 5)


async def test_lines_that_replace_timers_need_no_quota_and_new_timers_do(dsn: str, api: Api) -> None:
    await limit(dsn, timers_max=3)
    named = [{**HOUR, "name": f"n{n}", "on_conflict": "replace"} for n in range(4)]
    assert [line["outcome"] for line in (await api.post_lines(*named, **ACME)).lines] == ["created"] * 3 + ["refused"]

    again = (await api.post_lines(*({**line, "payload": 1} for line in named), **ACME)).lines

    assert [line["outcome"] for line in again] == ["replaced"] * 3 + ["refused"]
    assert "3 pending timers" in again[3]["why"]


async def test_lines_are_not_refused_because_of_an_old_count(dsn: str, api: Api) -> None:
    # Given a tenant that has scheduled two of four timers, and cancelled them
    await limit(dsn, timers_max=4)
    await canceled(api, "a", "b", tenant="acme")

    # When the tenant schedules four timers, after the interval between two counts
    later_s = api.gateway.quotas._clock() + STALE_S - 1
    with mock.patch.object(api.gateway.quotas, "_clock", return_value=later_s):
        said = await api.post_lines(*[HOUR] * 4, **ACME)

    # Then the gateway creates all four timers
    assert [line["outcome"] for line in said.lines] == ["created"] * 4


async def test_a_repeated_request_needs_no_quota(dsn: str, api: Api) -> None:
    await limit(dsn, timers_max=2)
    key = {"Idempotency_Key": "order-42", **ACME}
    first = await api.post("/v1/timers", HOUR, **key)
    line = {**HOUR, "idempotency_key": "order-43"}
    (second,) = (await api.post_lines(line, **ACME)).lines
    assert [first.status, second["outcome"]] == [201, "created"]
    (await api.post("/v1/timers", HOUR, **ACME)).assert_problem("over_quota", 429)

    again = await api.post("/v1/timers", HOUR, **key)
    lines = (await api.post_lines(line, {**HOUR, "idempotency_key": "order-44"}, **ACME)).lines

    assert (again.status, again.json["timer_key"]) == (201, first.json["timer_key"])
    assert again.headers["Idempotency-Replayed"] == "true"
    assert [it["outcome"] for it in lines] == ["created", "refused"]
    assert lines[0]["timer_key"] == second["timer_key"]
    other = await api.post("/v1/timers", {"delay": "PT2H"}, **key)
    assert other.status == 422, "it is another request with that key"
    assert await value(dsn, "select count(*) from shardclock.timers") == 2


async def test_while_earlier_answers_can_not_be_read_lines_are_not_tried_and_use_no_quota(dsn: str, api: Api) -> None:
    await limit(dsn, timers_max=1)

    async def away(*_: object) -> set[tuple[str, str]]:
        raise StoreUnavailable("no answer")

    with mock.patch.object(timer_quotas, "find_answered", away):
        lines = (await api.post_lines(HOUR, {**HOUR, "idempotency_key": "order-44"}, **ACME)).lines

    assert [it["outcome"] for it in lines] == ["untried", "untried"]
    assert (await api.post("/v1/timers", HOUR, **ACME)).status == 201


async def test_a_replacing_payload_needs_quota_for_its_additional_bytes(dsn: str, api: Api) -> None:
    await limit(dsn, payload_bytes_max=20)
    path = "/v1/timers/by-name/a"
    assert (await api.put(path, {**HOUR, "payload": "x" * 10}, **ACME)).status == 201

    assert (await api.put(path, {**HOUR, "payload": "x" * 18}, **ACME)).status == 200
    (await api.put(path, {**HOUR, "payload": "x" * 19}, **ACME)).assert_problem("over_quota", 429, "20 bytes")
    other = {**HOUR, "payload": 1}
    (await api.post("/v1/timers", other, **ACME)).assert_problem("quota_payload_bytes", 429)
    assert (await api.put(path, {**HOUR, "payload": "x" * 10}, **ACME)).status == 200
    assert (await api.post("/v1/timers", other, **ACME)).status == 201


@pytest.mark.parametrize("is_bulk", [False, True])
async def test_while_existing_names_can_not_be_read_a_replacing_timer_is_not_written(
    dsn: str, api: Api, is_bulk: bool
) -> None:
    await limit(dsn, timers_max=1)
    await api.put("/v1/timers/by-name/a", HOUR, **ACME)

    with mock.patch.object(timer_quotas, "find_named_pending", side_effect=StoreUnavailable("no answer")):
        if is_bulk:
            (line,) = (
                await api.post_lines({**HOUR, "name": "a", "on_conflict": "replace", "payload": 1}, **ACME)
            ).lines
            assert (line["outcome"], "send the line again" in line["why"]) == ("untried", True)
        else:
            (await api.put("/v1/timers/by-name/a", {"delay": "PT2H"}, **ACME)).assert_problem("unavailable", 503)
    (row,) = await query(dsn, "select payload from shardclock.timers")
    assert row["payload"] is None


async def test_existing_names_are_not_read_while_the_quota_suffices(dsn: str, api: Api) -> None:
    await limit(dsn, timers_max=10)
    with mock.patch.object(timer_quotas, "find_named_pending", side_effect=AssertionError("it was asked")):
        assert (await api.put("/v1/timers/by-name/a", HOUR, **ACME)).status == 201


async def test_requests_that_use_all_sessions_do_not_wait_for_each_other(dsn: str) -> None:
    await limit(dsn, payload_bytes_max=1_000_000)
    batches = [[{**HOUR, "name": f"{batch}-{n}", "on_conflict": "replace"} for n in range(200)] for batch in range(2)]
    async with serving(dsn, gateway_sessions=len(batches), gateway_wait_s=0.5) as api:
        done = await asyncio.gather(*(api.post_lines(*batch, **ACME) for batch in batches))

    assert {line["outcome"] for it in done for line in it.lines} == {"created"}
