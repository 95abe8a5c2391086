"""Webhooks of a worker with Postgres and receivers on loopback: sent, signed, retried and ended."""

from __future__ import annotations

import asyncio
import json

from standardwebhooks import Webhook

from shardclock_server.sql.endpoints.endpoints import (
    EndpointName,
    StoredEndpoint,
    add_endpoint,
    find_endpoints,
    set_secrets,
)
from shardclock_server.sql.session import Session
from shardclock_server.workers.settings import WorkerSettings
from tests.support.deliveries import deliver
from tests.support.factories import BOUND_S, HolderClient, value
from tests.support.handlers import FakeProcesses
from tests.support.receivers import SECRET, Receiver, answering, hanging, receiving
from tests.support.roles import as_role
from tests.support.waiting import eventually
from tests.support.working import QUICK, ended, working

SETTINGS = WorkerSettings(**QUICK.model_dump() | {"webhook_http": True, "webhook_allow": "127.0.0.0/8"})
TARGET = "webhook:billing"


async def add(dsn: str, receiver: Receiver, name: str = "billing", **policy: object) -> StoredEndpoint:
    one = StoredEndpoint("default", name, f"http://127.0.0.1:{receiver.port}/hook", {"x-team": "7"}, (SECRET,), policy)
    async with Session(as_role(dsn, "shard"), application="test", timeout_s=BOUND_S) as session:
        assert await add_endpoint(session, one)
    return one


async def test_a_webhook_is_sent_signed_and_recorded(dsn: str, shard: HolderClient) -> None:
    async with receiving(answering("204 No Content")) as receiver:
        await add(dsn, receiver)
        keys = await deliver(shard, 50, target=TARGET, payload="'{\"order\": 42}'")
        async with working(dsn, FakeProcesses(), settings=SETTINGS) as worker:
            await eventually(lambda: _ended(dsn, {"DELIVERED": 50}))
            await eventually(lambda: len(worker) == 0)

    assert sorted(request.headers["webhook-id"] for request in receiver.requests) == sorted(
        f"timer_{it}" for it in keys
    )
    request = receiver.requests[0]
    verified = Webhook(SECRET).verify(request.body, request.headers)
    assert (verified["data"]["target"], verified["data"]["payload"]) == (TARGET, {"order": 42})
    assert request.headers["x-team"] == "7"
    detail = json.loads(
        await value(dsn, "select detail from shardclock.command_log where intent = 'DELIVERED' limit 1")
    )
    assert (detail["attempt"], detail["result"]) == (1, {"status": 204})


async def test_a_failed_webhook_is_sent_again_with_the_same_id_and_body(dsn: str, shard: HolderClient) -> None:
    async with receiving(answering("500 Internal Server Error")) as receiver:
        await add(dsn, receiver, max_attempts=2, retry_min_s=0.01, retry_max_s=0.01)
        await deliver(shard, target=TARGET)
        async with working(dsn, FakeProcesses(), settings=SETTINGS):
            await eventually(lambda: _ended(dsn, {"DEAD": 1}))

    first, second = receiver.requests
    assert (first.body, first.headers["webhook-id"]) == (second.body, second.headers["webhook-id"])
    assert await value(dsn, "select reason from shardclock.dead_letters") == (
        "answered 500 Internal Server Error (attempt 2 of 2)"
    )


async def test_an_endpoint_that_answers_410_is_disabled(dsn: str, shard: HolderClient) -> None:
    async with receiving(answering("410 Gone")) as receiver:
        one = await add(dsn, receiver)
        await deliver(shard, 30, target=TARGET)
        async with (
            working(dsn, FakeProcesses(), settings=SETTINGS),
            Session(as_role(dsn, "shard"), application="test", timeout_s=BOUND_S) as session,
        ):
            await eventually(lambda: _is_disabled(session, one.key))
            await eventually(lambda: _ended(dsn, {"DEAD": 30}))

    assert len(receiver.requests) <= 5, "the requests in progress"


async def test_a_locked_endpoint_that_answered_410_delays_no_other_endpoint(dsn: str, shard: HolderClient) -> None:
    async with receiving(answering("410 Gone")) as gone, receiving(answering("204 No Content")) as quick:
        one = await add(dsn, gone)
        await add(dsn, quick, "quick")
        async with (
            Session(as_role(dsn, "shard"), application="test", timeout_s=BOUND_S) as session,
            Session(dsn, application="test", timeout_s=BOUND_S) as client,
            working(dsn, FakeProcesses(), settings=SETTINGS) as worker,
        ):
            async with client.transaction() as connection:
                await connection.execute("select from shardclock.endpoints where name = 'billing' for update")
                await deliver(shard, target=TARGET)
                await eventually(lambda: _ended(dsn, {"DEAD": 1}))
                await deliver(shard, 20, target="webhook:quick")
                await eventually(lambda: _ended(dsn, {"DEAD": 1, "DELIVERED": 20}))
            await eventually(lambda: _is_disabled(session, one.key))
            assert worker.stats.failures["endpoints"] == 0


async def test_an_endpoint_that_hangs_delays_no_other_endpoint(dsn: str, shard: HolderClient) -> None:
    async with receiving(hanging) as stuck, receiving(answering("204 No Content")) as quick:
        await add(dsn, stuck, "stuck")
        await add(dsn, quick, "quick")
        await deliver(shard, 500, target="webhook:stuck")
        async with working(dsn, FakeProcesses(), settings=SETTINGS) as worker:
            await eventually(lambda: len(stuck.requests) == 5)
            await deliver(shard, 200, target="webhook:quick")
            await eventually(lambda: _ended(dsn, {"DELIVERED": 200}))

            # The worker has claimed few of the other deliveries to the stuck endpoint. The check waits, because the
            # worker may not know yet that its last settlements are committed.
            await eventually(lambda: len(worker) <= 10)
            assert len(stuck.requests) == 5


async def test_an_added_secret_is_used_soon(dsn: str, shard: HolderClient) -> None:
    new = "whsec_" + 44 * "B"
    async with receiving(answering("204 No Content")) as receiver:
        one = await add(dsn, receiver)
        async with (
            working(dsn, FakeProcesses(), settings=SETTINGS),
            Session(as_role(dsn, "shard"), application="test", timeout_s=BOUND_S) as session,
        ):
            await deliver(shard, target=TARGET)
            await eventually(lambda: len(receiver.requests) == 1)
            assert await set_secrets(session, one.key, before=one.secrets, secrets=(new, *one.secrets))

            async def is_signed_with_both() -> bool:
                await deliver(shard, target=TARGET)
                await asyncio.sleep(0.1)
                return len(receiver.requests[-1].headers["webhook-signature"].split()) == 2

            await eventually(is_signed_with_both)

    Webhook(new).verify(receiver.requests[-1].body, receiver.requests[-1].headers)


async def test_a_webhook_in_flight_at_a_drain_is_sent_again(dsn: str, shard: HolderClient) -> None:
    async with receiving(hanging) as stuck:
        await add(dsn, stuck)
        (key,) = await deliver(shard, target=TARGET)
        async with working(dsn, FakeProcesses(), settings=SETTINGS):
            await eventually(lambda: len(stuck.requests) == 1)
    async with (
        receiving(answering("204 No Content"), port=stuck.port) as receiver,
        working(dsn, FakeProcesses(), settings=SETTINGS),
    ):
        await eventually(lambda: _ended(dsn, {"DELIVERED": 1}))

    assert [request.headers["webhook-id"] for request in receiver.requests] == [f"timer_{key}"]


async def test_a_private_address_is_not_connected_to(dsn: str, shard: HolderClient) -> None:
    async with receiving(answering("204 No Content")) as receiver:
        one = await add(dsn, receiver, max_attempts=1)
        assert one.url.startswith("http://127.0.0.1")
        await deliver(shard, target=TARGET)
        settings = replace_networks(SETTINGS)
        async with working(dsn, FakeProcesses(), settings=settings):
            await eventually(lambda: _ended(dsn, {"DEAD": 1}))

    assert receiver.connections == 0


def replace_networks(settings: WorkerSettings) -> WorkerSettings:
    """Return settings that permit only public addresses."""
    return WorkerSettings(**settings.model_dump() | {"webhook_allow": ""})


async def _ended(dsn: str, wanted: dict[str, int]) -> bool:
    return await ended(dsn) == wanted


async def _is_disabled(session: Session, key: EndpointName) -> bool:
    found = (await find_endpoints(session, [key]))[key]
    return found.disabled_why == "answered 410 Gone"
