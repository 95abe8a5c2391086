"""Endpoints subscribe to events for operators over HTTP, and a refused request is an event of its quota."""

from __future__ import annotations

import json

from shardclock_server.service import keys
from shardclock_server.sql.keys.keys import WantedKey
from shardclock_server.sql.session import Session
from tests.support.gateways import Api, serving
from tests.support.operator_events import bodies, events, send, subscribe
from tests.support.receivers import answering, receiving
from tests.support.waiting import eventually

URL = "https://hooks.example.com/services/T0/B0"


async def test_an_endpoint_is_subscribed_listed_and_unsubscribed(api: Api) -> None:
    await api.post("/v1/endpoints", {"name": "chat", "url": URL})

    made = (await api.put("/v1/notify/chat", {"kinds": ["job.failed", "delivery.dead"], "failures_min": 1})).json
    again = (await api.put("/v1/notify/chat", {"kinds": ["delivery.dead", "job.failed"], "failures_min": 1})).json

    assert made == {"message": "endpoint webhook:chat gets delivery.dead, job.failed", "changed": True}
    assert again["changed"] is False
    (listed,) = (await api.get("/v1/notify")).json["subscriptions"]
    assert (listed["endpoint"], listed["url"]) == ("chat", URL)
    assert (listed["kinds"], listed["failures_min"]) == (["delivery.dead", "job.failed"], 1)
    assert (await api.ask("DELETE", "/v1/notify/chat")).json["changed"] is True
    (await api.ask("DELETE", "/v1/notify/chat")).assert_problem("unknown_subscription", 404)
    assert (await api.get("/v1/notify")).json == {"subscriptions": []}


async def test_a_wrong_subscription_is_refused(api: Api) -> None:
    await api.post("/v1/endpoints", {"name": "chat", "url": URL})

    (await api.put("/v1/notify/chat", {"kinds": ["job.lost"]})).assert_problem("invalid_kinds", 422)
    (await api.put("/v1/notify/chat", {"kinds": []})).assert_problem("invalid_kinds", 422)
    (await api.put("/v1/notify/chat", {"kinds": ["delivery.dead"], "failures_min": 0})).assert_problem(
        "invalid_failures_min", 422
    )
    (await api.put("/v1/notify/nowhere", {"kinds": ["delivery.dead"]})).assert_problem("unknown_endpoint", 404)
    (await api.put("/v1/notify/chat", {"kinds": ["job.late"]}, Shardclock_Tenant="acme")).assert_problem(
        "invalid_kinds", 422
    )


async def test_a_tenants_key_subscribes_only_to_events_of_its_tenant(locked: Api, owner: Session) -> None:
    operator, tenant, reader = [
        {"Authorization": f"Bearer {(await keys.make(owner, WantedKey(of, scope, (scope,)))).text}"}
        for scope, of in (("operate", None), ("operate", "default"), ("read", "default"))
    ]
    await locked.post("/v1/endpoints", {"name": "chat", "url": URL}, **operator)

    (await locked.put("/v1/notify/chat", {"kinds": ["delivery.dead"]}, **reader)).assert_problem("not_allowed", 403)
    (await locked.put("/v1/notify/chat", {"kinds": ["cluster.lag"]}, **tenant)).assert_problem("not_allowed", 403)
    assert (await locked.put("/v1/notify/chat", {"kinds": ["delivery.dead"]}, **tenant)).status == 200
    assert (await locked.put("/v1/notify/chat", {"kinds": ["cluster.lag"]}, **operator)).status == 200
    # Only an operator may subscribe to events of the installation.
    (await locked.put("/v1/notify/chat", {"kinds": ["delivery.dead"]}, **tenant)).assert_problem("not_allowed", 403)
    (await locked.ask("DELETE", "/v1/notify/chat", **tenant)).assert_problem("not_allowed", 403)
    assert (await locked.get("/v1/notify", **reader)).json["subscriptions"][0]["kinds"] == ["cluster.lag"]


async def test_only_a_key_that_may_change_endpoints_can_read_their_full_urls(locked: Api, owner: Session) -> None:
    operator, reader = [
        {"Authorization": f"Bearer {(await keys.make(owner, WantedKey('default', scope, (scope,)))).text}"}
        for scope in ("operate", "read")
    ]
    await locked.post("/v1/endpoints", {"name": "chat", "url": URL}, **operator)
    await locked.put("/v1/notify/chat", {"kinds": ["delivery.dead"]}, **operator)

    async def urls(key: dict[str, str]) -> set[str]:
        (listed,) = (await locked.get("/v1/endpoints", **key)).json["endpoints"]
        (subscribed,) = (await locked.get("/v1/notify", **key)).json["subscriptions"]
        one = (await locked.get("/v1/endpoints/chat", **key)).json
        return {it["url"] for it in (listed, subscribed, one)}

    assert await urls(reader) == {"https://hooks.example.com/…"}
    assert await urls(operator) == {URL}


async def test_a_tenant_sees_only_its_own_subscriptions(dsn: str, api: Api) -> None:
    await subscribe(dsn, "delivery.dead", tenant_id="acme", name="chat")

    assert (await api.get("/v1/notify")).json["subscriptions"] == []
    (await api.ask("DELETE", "/v1/notify/chat")).assert_problem("unknown_subscription", 404)
    (await api.post("/v1/notify/chat/test")).assert_problem("unknown_subscription", 404)
    assert len((await api.get("/v1/notify", Shardclock_Tenant="acme")).json["subscriptions"]) == 1


async def test_a_test_event_is_sent_and_its_answer_is_returned(dsn: str) -> None:
    async with (
        receiving(answering("200 OK")) as receiver,
        serving(dsn, webhook_http=True, webhook_allow="127.0.0.0/8") as api,
    ):
        await subscribe(dsn, "delivery.dead", name="chat", url=f"http://127.0.0.1:{receiver.port}/", text_only=True)
        tried = (await api.post("/v1/notify/chat/test")).json

    assert (tried["delivered"], tried["message"]) == (True, "it answered 200")
    (request,) = receiver.requests
    assert json.loads(request.body) == {"text": "a test: endpoint webhook:chat gets delivery.dead"}


async def test_a_request_over_a_quota_is_an_event_of_its_tenant(dsn: str, api: Api) -> None:
    await subscribe(dsn, "quota.reached", tenant_id="acme")
    await api.put("/v1/tenants/acme", {"endpoints_max": 1})

    # When the tenant is refused twice
    for name in ("one", "two"):
        refused = await api.post("/v1/endpoints", {"name": name, "url": URL}, Shardclock_Tenant="acme")
        refused.assert_problem("quota_endpoints", 429)

    # Then one event reports both refusals.
    async def is_noted() -> bool:
        return await events(dsn) != []

    await eventually(is_noted)
    assert set(await events(dsn)) == {("quota.reached", "endpoints")}
    assert await send(dsn) == 1
    (body,) = await bodies(dsn, tenant_id="acme")
    assert body["text"].startswith("tenant 'acme' has a quota of 1 endpoints")
    assert (body["data"]["quota"], body["data"]["limit"]) == ("endpoints", 1)
