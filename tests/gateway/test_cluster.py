"""Test operators' changes of the whole cluster through the HTTP API: scale, ramp, hold and release."""

from __future__ import annotations

from typing import Any

from tests.support.factories import add_holder, add_timers, value
from tests.support.gateways import Api

WHY = {"reason": "billing is down"}
SAID = "an operator said: billing is down"


async def acts_of(api: Api) -> list[tuple[str, Any, str]]:
    """Read the audit records, the oldest first."""
    return [(it["verb"], it["parameters"], it["outcome"]) for it in (await api.get("/v1/audit")).json["acts"]][::-1]


async def test_an_operator_sets_the_number_of_keepers(dsn: str, api: Api) -> None:
    await add_holder(dsn, 11)

    done = (await api.ask("PUT", "/v1/cluster/scale/shard", {"wanted": 7})).json

    assert (done["role"], done["wanted"], done["serving"], done["min"]) == ("shard", 7, 1, None)
    assert (await api.ask("PUT", "/v1/cluster/scale/engine", {"wanted": 3})).json["wanted"] == 3
    scales = (await api.get("/v1/cluster/scale")).json["scales"]
    assert {it["role"]: it["wanted"] for it in scales}.items() >= {"shard": 7, "engine": 3}.items()
    assert await acts_of(api) == [
        ("scale", {"role": "shard", "wanted": 7}, "done"),
        ("scale", {"role": "engine", "wanted": 3}, "done"),
    ]


async def test_the_forecast_chooses_a_number_within_bounds_until_an_operator_gives_a_number(api: Api) -> None:
    path = "/v1/cluster/scale/shard"
    bounds = (await api.ask("PUT", path, {"min": 3, "max": 9, "target_per_s": 5_000})).json
    assert (bounds["wanted"], bounds["min"], bounds["max"], bounds["target_per_s"]) == (3, 3, 9, 5_000)
    assert (await api.ask("PUT", path, {"max": 12})).json["max"] == 12
    forecast = (await api.get("/v1/cluster/forecast")).json
    assert (forecast["shards_min"], forecast["shards_max"], forecast["target_per_s"]) == (3, 12, 5_000)
    assert len(forecast["timers_per_minute"]) == 15

    assert (await api.ask("PUT", path, {"wanted": 4})).json["min"] is None


async def test_an_invalid_scale_is_refused_and_changes_nothing(api: Api) -> None:
    before = (await api.get("/v1/cluster/scale")).json
    cases: list[tuple[str, dict[str, int], str]] = [
        ("shard", {}, "either wanted, or min"),
        ("shard", {"wanted": 4, "min": 1}, "either wanted, or min"),
        ("shard", {"wanted": 841}, "841 shards"),
        ("worker", {"min": 1, "max": 2}, "only to shards"),
        ("shard", {"min": 1}, "give min and max"),
        ("shard", {"min": 9, "max": 2}, "swap min and max"),
        ("shard", {"target_per_s": 1_000_001}, "target_per_s 1000001"),
        ("keeper", {"wanted": 4}, "keeper"),
    ]
    for role, body, words in cases:
        (await api.ask("PUT", f"/v1/cluster/scale/{role}", body)).assert_problem("refused", 422, words)
    assert (await api.get("/v1/cluster/scale")).json == before


async def test_an_operator_sets_and_removes_the_ramp(api: Api) -> None:
    before = (await api.get("/v1/cluster")).json["ramp_per_s"]

    assert (await api.ask("PUT", "/v1/cluster/ramp", {"per_s": 500})).json == {"before": before, "per_s": 500}
    assert (await api.ask("PUT", "/v1/cluster/ramp", {"per_s": None})).json == {"before": 500, "per_s": None}
    assert (await api.get("/v1/cluster")).json["ramp_per_s"] is None
    (await api.ask("PUT", "/v1/cluster/ramp", {})).assert_problem("refused", 422, "per_s is missing")
    (await api.ask("PUT", "/v1/cluster/ramp", {"per_s": -1})).assert_problem("refused", 422, "per_s -1")


async def test_an_operator_holds_and_releases_the_database(dsn: str, api: Api) -> None:
    await add_timers(dsn, 3)

    assert (await api.post("/v1/cluster/hold", WHY)).json == {**WHY, "before": None}
    assert (await api.get("/v1/cluster")).json["hold"] == SAID
    assert (await api.post("/v1/timers", {"delay": "PT1H"})).status == 201, "timers are accepted"
    would = (await api.post("/v1/cluster/release?dry_run=true")).json
    assert (would["released"], would["hold"], would["pending"], would["overdue"]) == (False, SAID, 4, 3)
    assert (await api.get("/v1/cluster")).json["hold"] == SAID

    assert (await api.post("/v1/cluster/release")).json["released"] is True
    assert (await api.get("/v1/cluster")).json["hold"] is None
    assert (await api.post("/v1/cluster/release")).json["released"] is False
    assert (await acts_of(api))[0] == ("hold", WHY, "done")


async def test_a_database_on_which_another_installation_fires_is_not_released(dsn: str, api: Api) -> None:
    await value(dsn, "update shardclock.identity set name = 'prod', origin = shardclock.origin() returning 1")
    await add_holder(dsn, 1)

    (await api.post("/v1/cluster/release")).assert_problem("conflict", 409, "fires on this database")
