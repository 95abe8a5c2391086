"""Test that schedules are listed with their last firings, and that each tenant and each key sees only its own."""

from __future__ import annotations

from typing import Any

import pytest

from shardclock import AsyncClient
from tests.support.factories import HolderClient, add_schedule
from tests.support.gateways import Api

HOURS_AGO = {"anchor": "now() - interval '9 hours'"}


@pytest.fixture
async def fired(shard: HolderClient) -> None:
    """Fire one schedule late, with seven missed occurrences, beside a plain timer and another tenant's schedule."""
    await add_schedule(shard.dsn, "R/PT1H", "now() - interval '8 hours'", name="'hourly'", **HOURS_AGO)
    await shard.fire((await shard.take(scope="sweep")).claimed)
    await add_schedule(shard.dsn, "R/P1D", "now() + interval '1 day'", name="'daily'")
    await add_schedule(shard.dsn, "R/P1D", "now() + interval '1 day'", name="'others'", tenant_id="'acme'")


def names(answer: Any) -> list[str]:
    return [schedule["name"] for schedule in answer.json["schedules"]]


@pytest.mark.usefixtures("fired")
async def test_a_list_of_schedules_has_their_last_firings(api: Api) -> None:
    await api.post("/v1/timers", {"delay": "PT1H", "name": "plain"})

    listed = await api.get("/v1/schedules")

    assert names(listed) == ["hourly", "daily"]
    hourly, daily = listed.json["schedules"]
    assert hourly["last"]["intent"] == "TRIGGERED"
    assert 8 * 3_600 < hourly["last"]["late_s"] < 8.1 * 3_600
    assert hourly["skipped"] >= 7
    assert [it["intent"] for it in hourly["firings"]] == ["SKIPPED", "TRIGGERED"]
    assert (daily["last"], daily["skipped"], daily["firings"]) == (None, 0, [])
    assert hourly["state"] == "PENDING"
    assert names(await api.get("/v1/schedules?name_contains=DAI")) == ["daily"]
    assert names(await api.get("/v1/schedules?limit=1")) == ["hourly"]
    assert names(await api.get("/v1/schedules?state=paused")) == []
    (await api.get("/v1/schedules?state=ended")).assert_problem("refused", 422, "state 'ended' is unknown: use pending")


@pytest.mark.usefixtures("fired")
async def test_one_schedule_is_shown_and_a_plain_or_unknown_timer_is_not_found(api: Api) -> None:
    await api.post("/v1/timers", {"delay": "PT1H", "name": "plain"})

    assert (await api.get("/v1/schedules/by-name/hourly")).json == (await api.get("/v1/schedules")).json["schedules"][0]
    for name in ("plain", "nobody", "others"):
        (await api.get(f"/v1/schedules/by-name/{name}")).assert_problem("not_found", 404, "there is no timer")
    async with AsyncClient(api.url) as client:
        shown = await client.get_schedule("hourly")
        assert [it.name async for it in client.list_schedules()] == ["hourly", "daily"]
    assert shown.last is not None
    assert shown.last in shown.firings
