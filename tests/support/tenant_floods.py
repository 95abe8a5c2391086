"""Use up each resource of the table in docs/operate/tenants.md as one tenant, and send a request as another tenant.

To add a row: write the row into the table, and add its flood to `FLOODS`; or, for a resource outside of the gateway,
add
the test of the resource to `ELSEWHERE`.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import aiohttp

from shardclock_server.gateway import combining, connections
from shardclock_server.gateway.combining import WRITERS, Combiner
from shardclock_server.gateway.limits import quotas
from shardclock_server.gateway.requests import key_lookups
from shardclock_server.gateway.requests.listing import PIECE_BYTES
from shardclock_server.gateway.routes import schedules
from shardclock_server.service import deployment, keys
from shardclock_server.sql.keys.keys import WantedKey
from tests.support.bpmn import model
from tests.support.factories import BOUND_S, add_timers, value
from tests.support.gateways import NDJSON, Api, Said, serving
from tests.support.sql_client import session as session_of
from tests.support.transactions import open_transaction
from tests.support.waiting import eventually

PAGE = Path(__file__).parents[2] / "docs" / "operate" / "tenants.md"
HEADING = "## Every bounded resource"
HOUR = {"delay": "PT1H"}
DAILY = {"schedule": "0 8 * * *"}
WAIT = "wait=PT30S"
LONG = "to_jsonb(repeat('x', 60000))"
URL = "https://billing.example.com/hooks"
XML = {"Content-Type": "application/xml"}

Flood = Callable[[str], Awaitable[None]]


def rows_of_table() -> list[str]:
    """List the resources in the first column of the table."""
    table = PAGE.read_text(encoding="utf-8").partition(HEADING)[2].partition("\n## ")[0]
    return [row.split("|")[1].strip() for row in re.findall(r"^\|.*\|$", table, re.MULTILINE)][2:]


def of(api: Api, tenant: str) -> Api:
    return api.with_headers(Shardclock_Tenant=tenant)


def assert_share(flooded: list[Said], *, answered: int, word: str = "the most for one tenant") -> None:
    """Assert that the gateway answered `answered` of one tenant's requests, and told it to retry the others."""
    refused = [said for said in flooded if said.status == 429]
    assert len(flooded) - len(refused) == answered
    assert refused
    for said in refused:
        assert int(said.headers["Retry-After"]) >= 1
        assert word in said.json["detail"]


@asynccontextmanager
async def asking(*requests: Awaitable[Said]) -> AsyncIterator[list[asyncio.Task[Said]]]:
    """Send requests at the same time, and wait for their answers at the end of the block."""
    tasks = [asyncio.ensure_future(request) for request in requests]
    async with asyncio.timeout(BOUND_S):
        yield tasks
        await asyncio.gather(*tasks)


async def _streams(dsn: str) -> None:
    async with serving(dsn, gateway_streams_max=4) as api, aiohttp.ClientSession() as session:
        headers = {"Shardclock-Tenant": "flood"}
        done = [await session.get(f"{api.url}/v1/log/stream?after=0", headers=headers) for _ in range(6)]
        assert [it.status for it in done] == [200] * 3 + [429] * 3
        (await of(api, "flood").get("/v1/log/stream")).assert_problem(
            "over_quota", 429, "the rest of the 4 slots is for other tenants"
        )
        other = await session.get(f"{api.url}/v1/log/stream?after=0", headers={"Shardclock-Tenant": "other"})
        assert other.status == 200
        for it in (*done, other):
            it.close()


async def _waits(dsn: str) -> None:
    async with serving(dsn, gateway_waits_max=4) as api:
        flood = of(api, "flood")
        async with asking(*(flood.post(f"/v1/timers?{WAIT}", HOUR) for _ in range(6))) as asked:
            await eventually(lambda: sum(it.done() for it in asked) == 3)
            assert (await of(api, "other").post("/v1/timers?wait=PT0.01S", HOUR)).status == 201
            api.stop()
        assert_share([it.result() for it in asked], answered=3)


async def _task_waits(dsn: str) -> None:
    body = {"type": "order.pack"}
    async with serving(dsn, gateway_task_waits_max=4) as api:
        flood = of(api, "flood")
        async with asking(*(flood.post(f"/v1/service-tasks/activate?{WAIT}", body) for _ in range(6))) as asked:
            await eventually(lambda: sum(it.done() for it in asked) == 3)
            assert (await of(api, "other").post("/v1/service-tasks/activate?wait=PT0.01S", body)).status == 200
            api.stop()
        assert_share([it.result() for it in asked], answered=3)


async def _held(dsn: str) -> None:
    """Let callers of one tenant wait for ends and for tasks; send another tenant's request from the same address."""
    taking = {"type": "order.pack"}
    async with serving(dsn, connections=32, gateway_connections_max=32) as api:
        flood, key = of(api, "flood"), (await of(api, "flood").post("/v1/timers", HOUR)).json["timer_key"]
        waits = [flood.get(f"/v1/timers/{key}/end?{WAIT}") for _ in range(10)]
        waits += [flood.post(f"/v1/service-tasks/activate?{WAIT}", taking) for _ in range(10)]
        async with asking(*waits) as asked:
            await eventually(lambda: sum(it.done() for it in asked) == 8)
            await eventually(lambda: len(api.app.state.connections) == 12)  # refused callers hold no connection
            assert (await of(api, "other").get("/v1/timers")).status == 200
            assert (await of(api, "other").post("/v1/timers?wait=PT0.01S", HOUR)).status == 201
            followed = await flood.get("/v1/log/stream")
            followed.assert_problem("over_quota", 429, "the rest of the 16 slots is for other tenants")
            api.stop()
        assert_share([it.result() for it in asked], answered=12)


class HeldCalls:
    """A function that records the order of its calls; each call waits for the test's permission."""

    def __init__(self, work: Callable[..., Any], name_of: Callable[..., str]) -> None:
        self.let_go = threading.Event()
        self.order: list[str] = []
        self._work = work
        self._name_of = name_of

    def __call__(self, *given: Any) -> Any:
        self.order.append(self._name_of(*given))
        assert self.let_go.wait(BOUND_S)
        return self._work(*given)


async def _takes_turns(held: HeldCalls, ask: Callable[[Api], Awaitable[Said]], dsn: str, status: int) -> None:
    """Flood a thread as one tenant: the other tenant's request runs second."""
    async with serving(dsn) as api:
        async with asking(*(ask(of(api, "flood")) for _ in range(8))) as asked:
            await eventually(lambda: sum(it.done() for it in asked) == 2)
            async with asking(ask(of(api, "other"))) as others:
                await eventually(lambda: api.gateway.models.limit.in_use + api.gateway.previews.limit.in_use == 7)
                held.let_go.set()
        assert_share([it.result() for it in asked], answered=6)
        assert others[0].result().status == status
        assert held.order == ["flood", "flood", "other", *["flood"] * 4]


async def _models(dsn: str) -> None:
    async def deploy(api: Api) -> Said:
        name = api._headers["Shardclock-Tenant"]
        text = model('<startEvent id="s"/>') + f"<!--{name}-->".encode()
        return await api.ask("POST", "/v1/processes", text, Content_Type="application/xml")

    held = HeldCalls(deployment.describe_processes, lambda text: "other" if b"<!--other" in text else "flood")
    with mock.patch.object(deployment, "describe_processes", held):
        await _takes_turns(held, deploy, dsn, 201)


async def _previews(dsn: str) -> None:
    async def ask(api: Api) -> Said:
        count = {"flood": 2, "other": 3}[api._headers["Shardclock-Tenant"]]
        return await api.get(f"/v1/schedules/preview?rule=R/P1D&count={count}")

    held = HeldCalls(schedules._preview, lambda _rule, _created, count: {2: "flood", 3: "other"}[count])
    with mock.patch.object(schedules, "_preview", held):
        await _takes_turns(held, ask, dsn, 200)


async def _sessions(dsn: str) -> None:
    async with serving(dsn, gateway_sessions=4, gateway_wait_s=0.1) as api, AsyncExitStack() as stack:
        for _ in range(3):
            await stack.enter_async_context(api.gateway.pool.session(frozenset({"flood"})))
        (await of(api, "flood").get("/v1/timers")).assert_problem("unavailable", 503, "which is its share")
        assert (await of(api, "other").get("/v1/timers")).status == 200


async def _bodies(dsn: str) -> None:
    async with serving(dsn) as api:
        body_budget = api.gateway.body_budget
        async with body_budget.reserve("flood", body_budget._share, within_s=BOUND_S):
            body = json.dumps(HOUR).encode()
            other = await of(api, "other").post("/v1/timers/bulk", body, Content_Type=NDJSON["Content-Type"])
            assert other.lines[0]["outcome"] == "created"


async def _keys(dsn: str) -> None:
    """Send requests with unknown keys: during the lookup these requests take no session from other requests."""
    unknown = [f"Bearer sck_aaaaaa{one}{other}_{'A' * 43}" for one, other in product("abcdefgh", repeat=2)]
    async with (
        serving(dsn, needs_keys=True, gateway_sessions=2, gateway_timeout_s=BOUND_S) as api,
        session_of(dsn, "owner") as owner,
    ):
        with mock.patch.object(key_lookups, "KNOWN_S", BOUND_S):
            made = await keys.make(owner, WantedKey("other", "a key", ("read",)))
            assert (await api.get("/v1/timers", Authorization=f"Bearer {made.text}")).status == 200
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(open_transaction(dsn, "lock table shardclock.api_keys"))
                async with asking(*(api.get("/v1/timers", Authorization=key) for key in unknown)) as asked:
                    await eventually(lambda: api.app.state.stats.in_flight == len(unknown))
                    assert api.gateway.pool.lent == 0
                    assert (await api.get("/v1/timers", Authorization=f"Bearer {made.text}")).status == 200
                    assert not any(it.done() for it in asked)
                    await stack.aclose()
    assert {it.result().status for it in asked} == {401}


# One change of each kind, by the subject of its path.
CHANGES = [
    ("POST", "/v1/timers"), ("POST", "/v1/endpoints"), ("PATCH", "/v1/endpoints/n"), ("POST", "/v1/deliveries/retry"),
    ("POST", "/v1/dead-letters/redrive"), ("POST", "/v1/incidents/resolve"), ("DELETE", "/v1/processes/7"),
    ("POST", "/v1/processes"), ("POST", "/v1/instances/7/move"), ("POST", "/v1/deliveries/7/cancel"),
]  # fmt: skip


async def _rate(dsn: str) -> None:
    async with serving(dsn, gateway_rate_per_s=0.01) as api:
        for tenant, (method, path) in enumerate(CHANGES):
            done = [await of(api, f"flood-{tenant}").ask(method, path, {}) for _ in range(3)]
            done[-1].assert_problem("too_many", 429, "may write 0.01 a second")
            assert done[0].status != 429
        assert (await of(api, "other").post("/v1/timers", HOUR)).status == 201


@asynccontextmanager
async def at_once(acts: int) -> AsyncIterator[None]:
    with mock.patch.object(quotas, "AUDITED_AT_ONCE", acts):
        yield


async def _acts(dsn: str) -> None:
    async with (
        at_once(2),
        serving(dsn, needs_keys=True, gateway_audited_per_hour=1) as api,
        session_of(dsn, "owner") as owner,
    ):
        flood, other, all_tenants = [
            {"Authorization": f"Bearer {(await keys.make(owner, WantedKey(tenant, 'k', ('admin',)))).text}"}
            for tenant in ("flood", "other", None)
        ]
        for path in ("endpoints/n/enable", "deliveries/7/cancel", "endpoints/n/disable"):
            assert [(await api.post(f"/v1/{path}", {}, **flood)).status for _ in range(2)] == [404] * 2
        for path in ("dead-letters/redrive", "incidents/resolve", "timers/bulk/cancel"):
            asked = [await api.post(f"/v1/{path}?dry_run=True", {"every": True} if "bulk" not in path else {}, **flood)]
            assert [it.status for it in asked] == [200]
        assert await value(dsn, "select count(*) from shardclock.audit") == 0
        done = [await api.post("/v1/endpoints", {}, **flood) for _ in range(2)]
        assert {it.status for it in done} == {422}
        done = [await api.ask(method, path, {}, **flood) for method, path in CHANGES[1:]]
        assert {it.status for it in done} == {429}
        done[-1].assert_problem("too_many", 429, "1 requests an hour", "record in the audit", "ask again in")
        assert int(done[-1].headers["Retry-After"]) > 1
        assert await value(dsn, "select count(*) from shardclock.audit where tenant_id = 'flood'") == 2
        assert (await api.post("/v1/endpoints", {"name": "e", "url": URL}, **other)).status == 201
        done = [await api.post("/v1/deliveries/7/cancel", {}, **all_tenants) for _ in range(4)]
        assert {it.status for it in done} == {404}


def _quota(path: str, body: Callable[[int], Mapping[str, object]], **setting: Any) -> Flood:
    """Send many requests against a quota of 2; two requests succeed."""

    async def flood(dsn: str) -> None:
        async with serving(dsn, **setting) as api:
            done = [await of(api, "flood").post(path, body(number)) for number in range(4)]
            assert [it.status for it in done] == [201, 201, 429, 429]
            assert (await of(api, "other").post(path, body(0))).status == 201

    return flood


async def _waiters(dsn: str) -> None:
    async with serving(dsn, gateway_waiters_max=2) as api:
        flood = of(api, "flood")
        async with asking(*(flood.post(f"/v1/timers?{WAIT}", HOUR) for _ in range(4))) as asked:
            await eventually(lambda: sum(it.done() for it in asked) == 2)
            assert (await of(api, "other").post("/v1/timers?wait=PT0.01S", HOUR)).status == 201
            api.stop()
        assert_share([it.result() for it in asked], answered=2, word="has a quota of 2 callers")


async def _creates(dsn: str) -> None:
    """Stop the writers while one tenant floods their queue: the other tenant's timer is in the next batch."""
    let_go, batches, send = asyncio.Event(), list[list[str]](), Combiner._send

    async def held(self: Combiner, wishes: list[Any]) -> None:
        batches.append([wish.timer.tenant_id for wish in wishes])
        await let_go.wait()
        await send(self, wishes)

    with (
        mock.patch.object(combining, "WAITING_MAX", 16),
        mock.patch.object(combining, "BATCH_TIMERS", 3),
        mock.patch.object(Combiner, "_send", held),
    ):
        async with serving(dsn) as api:
            async with asking(*(of(api, "flood").post("/v1/timers", HOUR) for _ in range(20))) as asked:
                await eventually(lambda: sum(it.done() for it in asked) == 8)
                async with asking(of(api, "other").post("/v1/timers", HOUR)) as others:
                    await eventually(lambda: api.gateway.combiner._limit.in_use == 13)
                    let_go.set()
            assert_share([it.result() for it in asked], answered=12)
            assert others[0].result().status == 201
    assert sorted(batches[WRITERS]) == ["flood", "flood", "other"]


async def _unread(dsn: str) -> None:
    """Request long answers as clients of one tenant, and read no answer."""
    for tenant in ("flood", "other"):
        await add_timers(dsn, 30, "now() + interval '1 hour'", tenant_id=f"'{tenant}'", payload=LONG)
    async with serving(dsn) as api:
        size = len((await of(api, "flood").get("/v1/timers")).body)
        assert api.gateway.unsent.bytes == 0
        api.gateway.unsent.bytes_max = 6 * size + 1_000
        readers = [SlowReader(api, "flood", "/v1/timers") for _ in range(6)]
        async with asking(*(reader.ask() for reader in readers)) as asked:
            await eventually(lambda: [it.statuses for it in readers].count([429]) == 2)
            await eventually(lambda: api.gateway.unsent.bytes == 4 * size)
            over = await of(api, "flood").get("/v1/timers")
            over.assert_problem("too_many", 429, f"{4 * size:,} bytes of answers to tenant 'flood' are unread")
            assert (await of(api, "other").get("/v1/timers")).status == 200
            for reader in readers:
                reader.reads.set()
        assert all(it.done() for it in asked)
        assert api.gateway.unsent.bytes == 0
        assert sorted(it.bytes for it in readers)[2:] == [size] * 4


class SlowReader:
    """A client that reads the first piece of an answer, and further pieces on request."""

    def __init__(self, api: Api, tenant: str, path: str) -> None:
        self.reads = asyncio.Event()
        self.statuses: list[int] = []
        self.bytes = 0
        self._app = api.app
        headers = [(b"host", b"localhost"), (b"shardclock-tenant", tenant.encode())]
        self._scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
            "path": path, "raw_path": path.encode(), "root_path": "", "query_string": b"", "headers": headers,
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2),
        }  # fmt: skip

    async def ask(self) -> Said:
        await self._app(self._scope, self._receive, self._send)
        return Said(self.statuses[0], {}, b"")

    async def _receive(self) -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.statuses.append(message["status"])
            return
        assert len(message["body"]) <= PIECE_BYTES
        if self.bytes:
            await self.reads.wait()
        self.bytes += len(message["body"])


async def _connections(dsn: str) -> None:
    """Open silent and waiting connections from one address, and send a request from another address."""
    async with serving(dsn, connections=16) as api, AsyncExitStack() as stack:
        port = int(api.url.rpartition(":")[2])
        connector = aiohttp.TCPConnector(local_addr=("127.0.0.2", 0), force_close=True)
        elsewhere = Api(await stack.enter_async_context(aiohttp.ClientSession(connector=connector)), api.url, api.app)
        with mock.patch.object(connections, "YOUNG_S", 0.0):
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(40)]
            await eventually(lambda: len(api.app.state.connections) == 12)
            assert (await elsewhere.get("/v1/timers")).status == 200
        # The gateway closed the oldest connections to admit new connections.
        assert [await reader.read() for reader, _ in silent[:28]] == [b""] * 28
        for _, writer in silent:
            writer.close()
        await eventually(lambda: len(api.app.state.connections) == 0)

        async with asking(*(api.post(f"/v1/timers?{WAIT}", HOUR) for _ in range(20))) as asked:
            await eventually(lambda: sum(it.done() for it in asked) == 8)
            assert (await elsewhere.get("/v1/timers")).status == 200
            api.stop()
        assert [it.result().status for it in asked].count(503) == 8


FLOODS: dict[str, Flood] = {
    "Pending timers": _quota("/v1/timers", lambda _: HOUR, gateway_timers_max=2),
    "Pending schedules": _quota("/v1/timers", lambda _: DAILY, gateway_schedules_max=2),
    "Bytes of pending timers' payloads": _quota(
        "/v1/timers", lambda _: HOUR | {"payload": "x" * 8}, gateway_payload_bytes_max=20
    ),
    "Endpoints": _quota("/v1/endpoints", lambda number: {"name": f"e{number}", "url": URL}, gateway_endpoints_max=2),
    "Changes a second": _rate,
    "Requests that leave a record in the [audit](audit.md)": _acts,
    "Requests that wait or follow the log": _waiters,
    "Slots to follow the log, or to wait for its records or for a run": _streams,
    "Slots to wait for an end": _waits,
    "Slots to wait for service tasks": _task_waits,
    "The three kinds of slots together": _held,
    "Models to parse": _models,
    "Previews of schedules, and explanations of a moment beyond a year": _previews,
    "Sessions on Postgres": _sessions,
    "Look-ups of API keys": _keys,
    "Connections of clients": _connections,
    "Bytes of long responses that clients have not read yet": _unread,
    "Bodies of many lines": _bodies,
    "Single timers that wait to be written": _creates,
}
# The tests of other resources, each as its file and its name.
ELSEWHERE: dict[str, str] = {
    "Webhooks in a worker's memory": (
        "tests/sql/test_due_lanes.py::test_no_delivery_to_a_new_endpoint_is_claimed_if_its_tenant_has_used_its_share"
    ),
    "New endpoints that a worker reads immediately if very many endpoints are new": (
        "tests/workers/test_lane_finder.py"
        "::test_the_first_webhook_of_a_tenant_is_claimed_soon_although_another_tenant_has_many_endpoints"
    ),
    "Instances of processes": ("tests/engine/test_quotas.py::test_instances_that_events_start_begin_up_to_the_quota"),
    "Open tasks": ("tests/engine/test_quotas.py::test_a_running_instance_over_a_quota_has_an_incident_until_it_fits"),
    "Kept messages": "tests/engine/test_quotas.py::test_messages_and_definitions_are_refused_at_a_full_quota",
    "Versions of processes": "tests/engine/test_quotas.py::test_messages_and_definitions_are_refused_at_a_full_quota",
    "Timers of instances": (
        "tests/engine/test_quotas.py::test_a_start_over_the_quota_of_timers_waits_and_then_continues"
    ),
}
