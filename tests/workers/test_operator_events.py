"""Events for operators reach a receiver as signed webhooks, beside the endpoint's other webhooks."""

from __future__ import annotations

import json

from standardwebhooks import Webhook

from shardclock_server.workers.settings import WorkerSettings
from shardclock_server.workers.worker import Worker
from tests.support.deliveries import WorkerClient, add_deliveries, bury
from tests.support.factories import query, value
from tests.support.handlers import FakeProcesses
from tests.support.operator_events import events, send, subscribe
from tests.support.receivers import SECRET, Receiver, answering, receiving
from tests.support.waiting import eventually
from tests.support.working import QUICK, working

SETTINGS = WorkerSettings(**QUICK.model_dump() | {"webhook_http": True, "webhook_allow": "127.0.0.0/8"})


def url_of(receiver: Receiver) -> str:
    return f"http://127.0.0.1:{receiver.port}/ops"


async def test_an_event_is_sent_signed_and_shown_among_the_attempts_of_its_endpoint(dsn: str) -> None:
    async with receiving(answering("200 OK", body=b"ok")) as receiver:
        await subscribe(dsn, "delivery.dead", tenant_id="acme", url=url_of(receiver))
        await bury(dsn, 3)
        await send(dsn)
        async with working(dsn, FakeProcesses(), settings=SETTINGS):
            await eventually(lambda: _attempts(dsn))

    (request,) = receiver.requests
    body = Webhook(SECRET).verify(request.body, request.headers)
    assert (body["type"], body["data"]["others"]) == ("delivery.dead", 2)
    assert body["text"].endswith("was given up: it raised too often (and 2 more) [tenant acme]")


async def test_an_event_does_not_wait_behind_the_other_webhooks_of_its_endpoint(dsn: str) -> None:
    # Given an endpoint with more webhooks than a worker sends at a time, and then an event
    async with receiving(answering("503 Service Unavailable", "retry-after: 3600")) as receiver:
        await subscribe(dsn, "delivery.dead", tenant_id="acme", url=url_of(receiver))
        await add_deliveries(dsn, 200, "webhook:ops")
        await bury(dsn, 1)
        await send(dsn)
        async with working(dsn, FakeProcesses(), settings=SETTINGS):
            await eventually(lambda: _received(receiver))


async def test_an_endpoint_that_answers_410_gets_no_event_about_itself(dsn: str) -> None:
    async with receiving(answering("410 Gone")) as receiver:
        await subscribe(dsn, "delivery.dead", "endpoint.disabled", tenant_id="acme", url=url_of(receiver))
        await bury(dsn, 1)
        await send(dsn)
        async with working(dsn, FakeProcesses(), settings=SETTINGS):
            await eventually(lambda: _is_disabled(dsn))

    assert await events(dsn) == [("endpoint.disabled", "ops")]
    assert await send(dsn) == 0
    assert await events(dsn) == []


async def _attempts(dsn: str) -> bool:
    return bool(await value(dsn, "select count(*) = 1 from shardclock.endpoint_attempts where body = 'ok'"))


async def _received(receiver: Receiver, kind: str = "delivery.dead") -> bool:
    return any(json.loads(request.body)["type"] == kind for request in receiver.requests)


async def _is_disabled(dsn: str) -> bool:
    return bool(
        await value(
            dsn,
            "select count(*) = 1 from shardclock.endpoints"
            " where disabled_at is not null and not exists (select from shardclock.deliveries)",
        )
    )


async def test_during_a_hold_only_the_event_about_the_hold_is_sent(dsn: str) -> None:
    async with receiving(answering("200 OK")) as receiver:
        await subscribe(dsn, "cluster.hold", url=url_of(receiver))
        await query(dsn, "update shardclock.identity set held_why = 'prices are wrong'")
        async with working(dsn, FakeProcesses(), settings=SETTINGS, is_up=False):
            await add_deliveries(dsn, 5, "webhook:ops", tenant_id="'default'")
            await send(dsn)
            await eventually(lambda: _received(receiver, "cluster.hold"))
            assert [json.loads(it.body)["type"] for it in receiver.requests] == ["cluster.hold"]

            # When the hold ends, its event and the held webhooks follow.
            await query(dsn, "update shardclock.identity set held_why = null")
            await send(dsn)
            await eventually(lambda: _is_empty(dsn))

    assert len(receiver.requests) == 7


async def test_from_a_copy_no_event_is_sent(dsn: str) -> None:
    async with receiving(answering("200 OK")) as receiver:
        await subscribe(dsn, "cluster.hold", url=url_of(receiver))
        await query(dsn, "update shardclock.identity set held_why = 'a test', origin = 'elsewhere', name = 'prod'")
        async with working(dsn, FakeProcesses(), settings=SETTINGS, is_up=False) as worker:
            await query(dsn, "update shardclock.holders set identity = 'staging' where holder = $1", worker.holder)
            await eventually(lambda: _is_foreign(worker))
            assert await send(dsn) == 1
            async with WorkerClient(dsn, worker.holder) as hand:
                assert (await hand.scan(webhooks=5)).claimed == []

    assert receiver.requests == []


async def _is_empty(dsn: str) -> bool:
    return bool(await value(dsn, "select not exists (select from shardclock.deliveries)"))


async def _is_foreign(worker: Worker) -> bool:
    return not worker.deliveries._heartbeat.last.is_own
