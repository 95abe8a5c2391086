"""Test that long responses do not block the event loop: each step is short for a response of any size."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from shardclock_server.keepers.collector import leave_out_of_collections
from tests.support.factories import query
from tests.support.gateways import NDJSON, Api, serving
from tests.support.loop_steps import longest_step

# No step should take more than 20 ms. Other programs on the machine slow a step down by caches and clock rates.
STEP_S_MAX = 0.04
PAYLOAD = [{"a": n, "b": [n, n]} for n in range(1_900)]  # 57 KB: nearly the largest payload, in many values
FILL = """
insert into shardclock.timers (timer_key, due_date, payload, name)
select nextval('shardclock.timer_key_seq'), now() + interval '1 day', $1::jsonb, 'n' || g
from generate_series(1, $2::integer) g
"""


@pytest.fixture(autouse=True)
def as_a_gateway_serves(collector: None) -> None:
    """Exclude all imported modules from garbage collection, as a gateway excludes its own modules."""
    leave_out_of_collections()


@pytest.fixture
async def api(dsn: str) -> AsyncIterator[Api]:
    """Serve a gateway with a long timeout: Postgres works hard in these tests."""
    async with serving(dsn, gateway_timeout_s=60.0) as api:
        yield api


async def fill(dsn: str, timers: int) -> None:
    """Add timers with large payloads."""
    await query(dsn, FILL, json.dumps(PAYLOAD), timers)


@pytest.mark.exhaustive
async def test_a_page_of_timers_with_all_the_payloads_that_fit_is_written_in_short_steps(dsn: str, api: Api) -> None:
    await fill(dsn, 1_000)
    await api.get("/v1/timers?limit=1")

    with longest_step() as longest:
        said = await read_page(api, "/v1/timers?limit=1000")

    assert longest.step_s < STEP_S_MAX, longest
    timers = json.loads(b"".join(said))["timers"]
    assert 2**20 < sum(map(len, said)) < 5 * 2**20
    assert (len(timers) < 1_000, timers[-1]["payload"]) == (True, PAYLOAD)


@pytest.mark.exhaustive
async def test_the_log_is_written_in_short_steps_by_pages_and_as_it_grows(dsn: str, api: Api) -> None:
    await fill(dsn, 60)
    await query(dsn, "select shardclock.cancel_timer(timer_key => t.timer_key) from shardclock.timers t")
    await api.get("/v1/log?limit=1")

    with longest_step() as longest:
        said = await read_page(api, "/v1/log?limit=500")
        await read_stream(api, sum(map(len, said)))

    assert longest.step_s < STEP_S_MAX, longest
    records = json.loads(b"".join(said))["records"]
    assert [len(record["payload"]) for record in records] == [len(PAYLOAD)] * 60


@pytest.mark.exhaustive
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"], ids=["timers", "schedules"])
async def test_ten_thousand_lines_are_scheduled_in_short_steps(api: Api, zone: str | None) -> None:
    line = {"schedule": "0 0 29 2 MON", "zone": zone} if zone else {"delay": "PT1H", "payload": {"order": 42}}
    body = b"\n".join([json.dumps(line).encode()] * 10_000)
    form = NDJSON["Content-Type"]
    await api.post("/v1/timers/bulk", body[: body.index(b"\n")], Content_Type=form)

    with longest_step() as longest:
        said = await api.post("/v1/timers/bulk", body, Content_Type=form)

    assert longest.step_s < STEP_S_MAX, longest
    assert {outcome["outcome"] for outcome in said.lines} == {"created"}
    assert [outcome["line"] for outcome in said.lines] == list(range(1, 10_001))


async def read_page(api: Api, path: str) -> list[bytes]:
    """Read a response in the received pieces: joining the pieces would be a long step of the test itself."""
    async with api.stream(path) as chunks:
        return [chunk async for chunk in chunks]


async def read_stream(api: Api, size: int) -> None:
    """Follow the log until `size` bytes are read."""
    async with api.stream("/v1/log/stream?after=0") as chunks:
        read = 0
        async for chunk in chunks:
            read += len(chunk)
            if read >= size:
                return
