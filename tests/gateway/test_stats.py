"""Prove that requests are counted by their operation, and reported to the exporter."""

from __future__ import annotations

import asyncio

from cluster.families import REPORTED
from gateway.stats import report_of
from metrics.report import decode, encode
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
    assert counted["create", "2xx"] == 2
    assert counted["create", "4xx"] == 1
    assert counted["get_timer_by_name", "2xx"] == 1
    assert counted["other", "4xx"] == 1
    assert sum(stats.took["create"].counts) == 2  # who waits is not slow
    assert stats.in_flight == 0


async def test_a_report_is_one_that_the_exporter_takes(api: Api) -> None:
    await asyncio.gather(*(api.post("/v1/timers", HOUR) for _ in range(20)))
    await api.get("/v1/timers")

    gateway = api.gateway
    report = report_of("gateway-1", api.app.state.stats, gateway.pool, gateway.combiner, gateway.waiters)
    read = decode(encode(report), REPORTED)
    found = {(sample.name, tuple(sample.labels)): sample.value for sample in read.samples}
    assert found["requests", ("create", "2xx")] == found["creates_combined", ()] == 20
    assert 1 <= found["create_batches", ()] <= 20
    assert {histogram.labels[0] for histogram in read.histograms} == {"create", "list_timers"}


async def test_the_exporter_shows_what_a_gateway_did(dsn: str) -> None:
    with exporting() as exporter:
        async with serving(dsn, metrics_socket=exporter.socket_path) as api:
            await api.post("/v1/timers", HOUR)

            async def is_shown() -> bool:
                return (await ask(exporter.address)).numbers("requests_total") == {("create", "2xx"): 1.0}

            await eventually(is_shown)
