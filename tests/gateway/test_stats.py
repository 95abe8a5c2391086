"""Test that requests are counted by operation, and reported to the exporter."""

from __future__ import annotations

import asyncio

from shardclock_server.cluster.families import REPORTED
from shardclock_server.gateway.connections import connections_of
from shardclock_server.gateway.families import FAMILIES, TENANTS_NAMED_MAX
from shardclock_server.gateway.limits.wait_limits import HELD_SHARE
from shardclock_server.gateway.upkeep.measuring import Measurements
from shardclock_server.gateway.upkeep.stats import (
    RequestStats,
    histograms_of,
    samples_of_gateway,
    samples_of_measurements,
    samples_of_requests,
)
from shardclock_server.metrics.report import MetricsReport, decode, encode
from shardclock_server.sql.served import NO_TENANTS
from tests.support.exporting import ask, exporting
from tests.support.gateways import Api, serving
from tests.support.waiting import eventually

HOUR = {"delay": "PT1H"}


async def test_requests_are_counted_by_operation_and_status(dsn: str, api: Api) -> None:
    await api.post("/v1/timers", {**HOUR, "name": "n"})
    await api.post("/v1/timers", {**HOUR, "name": "n"})
    await api.get("/v1/timers/by-name/n")
    await api.get("/nowhere")
    await api.post("/v1/timers?wait=PT0.1S", HOUR)

    stats = api.app.state.stats
    counted = dict(stats.answered)
    assert counted["create_timer", "2xx"] == 2
    assert counted["create_timer", "4xx"] == 1
    assert counted["get_timer_by_name", "2xx"] == 1
    assert counted["other", "4xx"] == 1
    assert sum(stats.took["create_timer"].counts) == 2  # a long poll has no duration
    assert stats.in_flight == 0


async def test_operations_are_counted_by_the_names_of_the_reference(api: Api) -> None:
    for path in ("/healthz", "/readyz", "/v1/jobs", "/v1/endpoints", "/v1/consumers", "/v1/log", "/v1/cluster"):
        await api.get(path)
    await api.post("/v1/timers", HOUR)

    named = {said["operationId"] for path in api.app.openapi()["paths"].values() for said in path.values()}
    counted = {operation for operation, _ in api.app.state.stats.answered}
    assert len(counted) == 8
    assert counted <= named


async def test_statuses_503_and_429_are_counted_separately_and_429_by_tenant(dsn: str) -> None:
    async with serving(dsn, gateway_rate_per_s=0.5, gateway_sessions=2, gateway_wait_s=0.1) as api:
        acme = api.with_headers(Shardclock_Tenant="Acme GmbH")
        assert [(await acme.post("/v1/timers", HOUR)).status for _ in range(3)] == [201, 429, 429]
        async with api.gateway.pool.session(NO_TENANTS), api.gateway.pool.session(NO_TENANTS):
            assert (await api.get("/v1/timers")).status == 503

        stats = api.app.state.stats
        assert stats.answered["create_timer", "429"] == 2
        assert stats.answered["list_timers", "503"] == 1
        assert dict(stats.throttled) == {"Acme GmbH": 2}
        assert api.gateway.pool.missed == 1


def test_only_the_first_tenants_are_counted_by_name() -> None:
    stats = RequestStats()
    for number in range(TENANTS_NAMED_MAX + 5):
        stats.throttle(f"t{number}")
    stats.throttle("t3")
    stats.throttle("x" * 65)

    assert len(stats.throttled) == TENANTS_NAMED_MAX + 1
    assert (stats.throttled["t3"], stats.throttled["other"]) == (2, 6)


def test_a_tenant_name_that_does_not_fit_a_label_is_counted_as_other() -> None:
    stats = RequestStats()
    stats.throttle("x" * 65)

    assert dict(stats.throttled) == {"other": 1}


async def test_the_exporter_accepts_a_gateways_report(api: Api) -> None:
    await asyncio.gather(*(api.post("/v1/timers", HOUR) for _ in range(20)))
    await api.get("/v1/timers")

    watched = Measurements(keys_expiring=3)
    watched.loop_lag.add(0.002)
    stats, samples = api.app.state.stats, samples_of_gateway(api.gateway)
    stats.throttle("Acme GmbH")
    report = MetricsReport(
        "gateway-1",
        samples=[*samples_of_requests(stats), *samples, *samples_of_measurements(watched)],
        histograms=histograms_of(stats, watched),
    )
    read = decode(encode(report), REPORTED)
    found = {(sample.name, tuple(sample.labels)): sample.value for sample in read.samples}
    assert found["requests", ("create_timer", "2xx")] == found["creates_combined", ()] == 20
    assert 1 <= found["create_batches", ()] <= 20
    held_most = connections_of(api.gateway.settings) // HELD_SHARE
    assert found["gateways", ()] == 1
    assert found["waiters_max", ()] == min(20_000, held_most)
    assert found["log_streams_max", ()] == min(200, held_most)
    assert found["task_waits_max", ()] == min(500, held_most)
    assert found["gateway_sessions_lent", ()] >= 2
    assert found["keys_expiring", ()] == 3
    assert found["requests_throttled", ("Acme GmbH",)] == 1
    assert {histogram.labels for histogram in read.histograms} == {("create_timer",), ("list_timers",), ()}


async def test_each_family_of_gateways_is_reported(api: Api) -> None:
    await api.get("/v1/timers")
    stats, watched = api.app.state.stats, Measurements(keys_expiring=0)
    stats.throttle("acme")

    samples = [*samples_of_requests(stats), *samples_of_gateway(api.gateway), *samples_of_measurements(watched)]
    told = {it.name for it in samples} | {it.name for it in histograms_of(stats, watched)}
    assert told == {family.name for family in FAMILIES}


async def test_the_exporter_shows_a_gateways_requests(dsn: str) -> None:
    with exporting() as exporter:
        async with serving(dsn, metrics_socket=exporter.socket_path) as api:
            await api.post("/v1/timers", HOUR)

            async def is_shown() -> bool:
                return (await ask(exporter.address)).numbers("requests_total") == {
                    # A status without failures is reported as 0, so that the first failures are an increase.
                    ("create_timer", "2xx"): 1.0, ("create_timer", "5xx"): 0.0, ("create_timer", "503"): 0.0,
                }  # fmt: skip

            await eventually(is_shown)
