"""Test that the rate of one tenant's writes is limited, and that other tenants are not affected."""

from __future__ import annotations

import pytest

from shardclock_server.gateway.limits.rates import BURST_S, DEBT_S, RateLimits
from shardclock_server.gateway.requests.problems import Problem
from tests.support.clock import Clock
from tests.support.factories import value
from tests.support.gateways import serving

HOUR = {"delay": "PT1H"}


def taken(limits: RateLimits, tenant: str, per_s: float | None = 8.0, *, most: int = 1_000) -> int:
    """Take writes until one is refused; return how many were taken."""
    for number in range(most):
        try:
            limits.take(tenant, per_s)
        except Problem:
            return number
    return most


def test_a_tenant_has_a_burst_and_then_its_rate_per_second() -> None:
    clock = Clock()
    limits = RateLimits(clock=clock)

    assert taken(limits, "ada") == 8 * BURST_S
    assert taken(limits, "bob") == 8 * BURST_S
    for _ in range(5):
        clock.now_s += 1.0
        assert taken(limits, "ada") == 8


def test_a_full_bucket_may_grant_more_than_a_burst_and_the_debt_is_paid_later() -> None:
    clock = Clock()
    limits = RateLimits(clock=clock)
    limits.take("ada", 8.0, 80)

    clock.now_s += 7.0
    assert taken(limits, "ada") == 0
    clock.now_s += 2.0
    assert taken(limits, "ada") == 8


def test_a_tenant_without_a_rate_limit_is_never_refused() -> None:
    assert taken(RateLimits(), "ada", None) == 1_000


def test_writes_that_did_not_take_place_are_returned_to_the_bucket() -> None:
    limits = RateLimits(clock=Clock())
    limits.take("ada", 8.0, 10_000)
    limits.give_back("ada", 8.0, 9_992, of=10_000)

    assert taken(limits, "ada") == 8


def test_a_wait_is_bounded_however_many_writes_were_taken() -> None:
    clock = Clock()
    limits = RateLimits(clock=clock)
    limits.take("ada", 8.0, 10_000)
    limits.give_back("ada", 8.0, 1, of=10_000)

    clock.now_s += DEBT_S - 1.0
    assert taken(limits, "ada") == 8
    assert taken(limits, "ada", 0.001) == 0


def test_a_higher_rate_pays_for_earlier_writes_sooner() -> None:
    clock = Clock()
    limits = RateLimits(clock=clock)
    limits.take("ada", 0.1, 4)

    clock.now_s += 20.0
    assert taken(limits, "ada", 0.1) == 0
    assert taken(limits, "ada", 100.0) == 198


async def test_only_the_tenant_over_its_rate_is_refused_with_a_time_to_retry(dsn: str) -> None:
    async with serving(dsn, gateway_rate_per_s=0.5) as api:
        done = [await api.post("/v1/timers", HOUR) for _ in range(30)]
        refused = next(it for it in done if it.status != 201)
        refused.assert_problem("too_many", 429, "0.5 a second")
        assert int(refused.headers["Retry-After"]) >= 1
        stored = await value(dsn, "select count(*) from shardclock.timers")
        assert stored == sum(it.status == 201 for it in done) < 30
        assert (await api.post("/v1/timers", HOUR, Shardclock_Tenant="bob")).status == 201
        assert (await api.get("/v1/timers")).status == 200


@pytest.mark.parametrize("lines", [3, 100])
async def test_each_line_of_a_body_counts_as_a_write(dsn: str, lines: int) -> None:
    async with serving(dsn, gateway_rate_per_s=10.0) as api:
        assert (await api.post_lines(*[HOUR] * lines)).status == 200
        assert (await api.post_lines(*[HOUR] * lines)).status == (200 if lines == 3 else 429)


@pytest.mark.parametrize("keyed", [False, True], ids=["refused", "replayed"])
async def test_lines_that_write_nothing_use_up_no_rate(dsn: str, keyed: bool) -> None:
    lines = [{**HOUR, "idempotency_key": f"k{n}"} if keyed else 0 for n in range(300)]
    if keyed:
        async with serving(dsn) as api:
            assert (await api.post_lines(*lines)).status == 200
    async with serving(dsn, gateway_rate_per_s=1.0) as api:
        said = await api.post_lines(*lines)
        assert all(line.get("replayed") if keyed else line["outcome"] == "refused" for line in said.lines)
        assert (await api.post("/v1/timers", HOUR)).status == 201


async def test_the_next_body_waits_until_the_rate_has_paid_for_all_lines_and_a_single_write_a_minute(dsn: str) -> None:
    async with serving(dsn, gateway_rate_per_s=1.0) as api:
        said = await api.post_lines(*[HOUR] * 1_000)
        assert {line["outcome"] for line in said.lines} == {"created"}
        single = await api.post("/v1/timers", HOUR)
        more = await api.post_lines(*[HOUR] * 1_000)
        assert (single.status, more.status) == (429, 429)
        assert int(single.headers["Retry-After"]) <= DEBT_S
        assert int(more.headers["Retry-After"]) > 900


async def test_a_worker_ends_and_extends_service_tasks_while_its_tenant_has_used_up_its_rate(dsn: str) -> None:
    async with serving(dsn, gateway_rate_per_s=0.01) as api:
        await api.post("/v1/timers", HOUR)
        (await api.post("/v1/service-tasks/activate", {"type": "pack"})).assert_problem("too_many", 429)
        more = {"fail": {"reason": "no box"}, "throw": {"code": "NO_BOX"}}
        for verb in ("complete", "extend", "fail", "throw"):
            said = await api.post(f"/v1/service-tasks/7/{verb}", {"claim": 1, **more.get(verb, {})})
            said.assert_problem("not_found", 404, "service task 7 is unknown")
