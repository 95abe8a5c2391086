"""Test that a request over HTTP cancels all instances with a business key, but only in the caller's tenant."""

from __future__ import annotations

from tests.support.bpmn import model
from tests.support.factories import value
from tests.support.gateways import Api

MODEL = model('<startEvent id="s"/><userTask id="u"/>', connected="s>u")
TOLD = "select count(*) from shardclock.deliveries where payload ->> 'kind' = 'cancel'"


async def start(api: Api, business_key: str, tenant: str = "default") -> int:
    whose = {"Shardclock-Tenant": tenant}
    await api.deploy(MODEL, **whose)
    return int((await api.post("/v1/processes/p/start", {"business_key": business_key}, **whose)).json["instance_key"])


async def test_all_instances_of_a_business_key_are_cancelled_and_a_dry_run_cancels_none(dsn: str, api: Api) -> None:
    keys = [await start(api, "order-42") for _ in range(2)]
    await start(api, "order-43")
    await start(api, "order-42", tenant="other")
    asked = {"business_key": "order-42"}

    would = await api.post("/v1/instances/cancel?dry_run=true", asked)
    assert (would.json["instance_keys"], would.json["message"]) == (
        keys[::-1], "2 instances would be cancelled; nothing was changed",
    )  # fmt: skip
    assert await value(dsn, TOLD) == 0
    done = [await api.post("/v1/instances/cancel", asked, Idempotency_Key="once") for _ in range(2)]
    assert [one.json for one in done] == [
        {"instance_keys": keys[::-1], "message": "2 instances are told to end", "more": False}
    ] * 2
    assert await value(dsn, TOLD) == 2


async def test_at_most_the_limit_of_instances_is_cancelled(dsn: str, api: Api) -> None:
    keys = [await start(api, "order-42") for _ in range(3)]
    done = (await api.post("/v1/instances/cancel", {"business_key": "order-42", "limit": 2})).json
    assert (done["instance_keys"], done["more"]) == ([keys[2], keys[1]], True)


async def test_a_cancel_without_a_business_key_is_refused_and_a_cancel_without_matches_reports_this(api: Api) -> None:
    (await api.post("/v1/instances/cancel", {})).assert_problem("refused", 422, "business_key")
    none = await api.post("/v1/instances/cancel", {"business_key": "order-42", "process_id": "p"})
    assert (none.status, none.json["message"]) == (200, "no instance with this business key starts or runs")
