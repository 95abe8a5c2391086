"""Test that a waiting caller's request does not stay in memory, and that the caller's slot is freed in each case."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Message, Receive, Scope, Send

from shardclock_server.gateway.routes.processes import StartRequest
from shardclock_server.gateway.waits.deferred import DeferredMiddleware, DeferredResponse
from shardclock_server.service import processes as use_cases
from shardclock_server.sql.session import StoreUnavailable
from shardclock_server.timers.model import NewTimer
from tests.support.bpmn import model
from tests.support.factories import query
from tests.support.gateways import Api, serving
from tests.support.waiting import eventually

HOUR = {"delay": "PT1H"}
OF_A_REQUEST = (Request, NewTimer, DeferredResponse)


@pytest.fixture(autouse=True)
def _own_objects(collector: None) -> None:
    """Hide the objects of earlier tests from the garbage collector, because a scan of these objects takes seconds."""
    gc.freeze()


class ParsedBody:
    """The parsed body of a request."""


class Slot:
    """A connection slot that counts the calls of `release`."""

    released = 0

    def release(self) -> None:
        """Count the release of the slot."""
        self.released += 1


class Caller:
    """Send a request for `/` to an application, and record the response."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        self.said: list[Message] = []
        self.scope: dict[str, Any] = {
            "type": "http", "method": "GET", "path": "/", "raw_path": b"/", "query_string": b"", "headers": [],
            "root_path": "", "http_version": "1.1", "scheme": "http", "state": {},
        }  # fmt: skip
        self.asking = asyncio.create_task(self._ask(app))

    async def _ask(self, app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        await app(self.scope, self._receive, self._send)

    async def _receive(self) -> Message:
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        self.said.append(message)


def app_of(route: Callable[..., Awaitable[Response]], **more: Any) -> FastAPI:
    """Make an application of one route with a deferred response, as the gateway does."""
    app = FastAPI()
    app.get("/", response_model=None)(route)
    app.add_middleware(DeferredMiddleware, **more)
    return app


def kept(*kinds: type, beside: Sequence[object] = ()) -> list[Any]:
    """Find the objects of these types in memory, except the objects in `beside`."""
    gc.collect()
    known = {id(it) for it in beside}
    return [it for it in gc.get_objects() if type(it) in kinds and id(it) not in known]


@pytest.mark.parametrize(
    ("method", "path"),
    [("post", "/v1/timers"), ("put", "/v1/timers/by-name/tea"), ("get", "/v1/timers/1/end")],
)
async def test_during_a_wait_for_a_timers_end_the_request_is_not_in_memory(api: Api, method: str, path: str) -> None:
    assert (await api.post("/v1/timers", HOUR)).json["timer_key"] == 1
    before = kept(*OF_A_REQUEST)  # objects that other tests have left
    body = () if method == "get" else (HOUR,)
    waiting = asyncio.create_task(getattr(api, method)(f"{path}?wait=PT30S", *body))
    await eventually(lambda: api.gateway.timer_ends.count == 1)
    await eventually(lambda: not kept(*OF_A_REQUEST, beside=before))

    api.stop()
    assert (await waiting).status in {201, 204}
    assert api.gateway.wait_limits.ends.in_use == 0


@pytest.mark.parametrize(("method", "path"), [("post", "/v1/processes/p/start"), ("get", "/v1/instances/{}")])
async def test_during_a_wait_for_an_instance_the_request_is_not_in_memory(api: Api, method: str, path: str) -> None:
    await api.deploy(model('<startEvent id="s"/>'))
    key = (await api.post("/v1/processes/p/start", {})).json["instance_key"]  # no engine runs
    before = kept(*OF_A_REQUEST, StartRequest)
    body = () if method == "get" else ({"variables": {"order": 42}},)
    waiting = asyncio.create_task(getattr(api, method)(f"{path.format(key)}?wait=PT30S", *body))
    await eventually(lambda: api.gateway.instance_ends.count == 1)
    await eventually(lambda: not kept(*OF_A_REQUEST, StartRequest, beside=before))

    api.stop()
    answered = await waiting
    assert (answered.status, answered.json["state"]) == (201 if method == "post" else 200, "STARTING")
    assert api.gateway.wait_limits.ends.in_use == api.gateway.quotas.count_waiting("default") == 0


async def test_a_wait_for_an_instance_that_vanishes_is_answered_404(api: Api, dsn: str) -> None:
    await api.deploy(model('<startEvent id="s"/>'))
    key = (await api.post("/v1/processes/p/start", {})).json["instance_key"]
    waiting = asyncio.create_task(api.get(f"/v1/instances/{key}?wait=PT30S"))
    await eventually(lambda: api.gateway.instance_ends.count == 1)
    await query(dsn, "delete from shardclock.deliveries")  # the signal that starts the instance

    api.stop()
    (await waiting).assert_problem("not_found", 404, f"instance {key}")
    assert api.gateway.wait_limits.ends.in_use == 0


async def test_a_wait_for_an_instance_during_an_outage_is_answered_503(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.deploy(model('<startEvent id="s"/>'))
    waiting = asyncio.create_task(api.post("/v1/processes/p/start?wait=PT30S", {}))
    await eventually(lambda: api.gateway.instance_ends.count == 1)

    async def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("the connection was lost")

    monkeypatch.setattr(use_cases, "find", away)
    api.stop()

    answered = await waiting
    answered.assert_problem("unavailable", 503, "the connection was lost")
    assert int(answered.headers["Retry-After"]) > 0
    assert api.gateway.wait_limits.ends.in_use == 0


async def test_a_refused_or_disconnected_caller_holds_no_place(dsn: str) -> None:
    async with serving(dsn, gateway_waits_max=1) as api:
        named = {**HOUR, "name": "tea"}
        assert (await api.post("/v1/timers", named)).status == 201
        assert (await api.post("/v1/timers?wait=PT30S", named)).status == 409
        assert api.gateway.wait_limits.ends.in_use == api.gateway.quotas.count_waiting("default") == 0

        for asking in (api.post("/v1/timers?wait=PT30S", HOUR), api.get("/v1/timers/1/end?wait=PT30S")):
            waiting = asyncio.create_task(asking)
            await eventually(lambda: api.gateway.timer_ends.count == 1)
            waiting.cancel()
            await eventually(lambda: api.gateway.wait_limits.ends.in_use == 0)
            assert api.gateway.quotas.count_waiting("default") == 0

    async with serving(dsn, gateway_waits_max=1, gateway_waiters_max=0) as api:
        for _ in range(2):
            (await api.get("/v1/timers/1/end?wait=PT30S")).assert_problem("over_quota", 429, "0 callers")
        assert api.gateway.wait_limits.ends.in_use == 0


async def test_during_a_wait_the_objects_of_routing_and_validation_are_not_in_memory() -> None:
    begun, told, slot = asyncio.Event(), asyncio.Event(), Slot()

    async def answer(receive: Receive) -> Response:
        begun.set()
        await told.wait()
        return JSONResponse({"received": (await receive())["type"]})

    async def route(request: Request, body: Annotated[ParsedBody, Depends(ParsedBody)]) -> Response:
        assert [it for it in request.scope.values() if isinstance(it, AsyncExitStack)], "which are to go"
        assert kept(ParsedBody) == [body]
        return DeferredResponse(answer, slot)

    before = kept(Request, DeferredResponse)
    caller = Caller(app_of(route))
    await begun.wait()

    await eventually(lambda: kept(ParsedBody, Request, DeferredResponse, beside=before) == [])
    assert not [it for it in caller.scope.values() if isinstance(it, AsyncExitStack)]
    assert (caller.said, slot.released) == ([], 0)
    told.set()
    await caller.asking
    assert [it["type"] for it in caller.said] == ["http.response.start", "http.response.body"]
    assert caller.said[1]["body"] == b'{"received":"http.disconnect"}'
    assert slot.released == 1


async def test_a_deferred_response_that_fails_frees_its_place() -> None:
    slot = Slot()

    async def answer(_: Receive) -> Response:
        raise ValueError("no such record")

    async def route(_: Request) -> Response:
        return DeferredResponse(answer, slot)

    async def hidden(_: Request, __: Exception) -> Response:
        return Response("a fault of ours must be seen as one", 404)

    caller = Caller(app_of(route, errors={Exception: hidden}))
    with pytest.raises(ValueError, match="no such record"):
        await caller.asking

    assert slot.released == 1
    assert caller.said[0]["status"] == 500


async def test_an_error_of_a_deferred_response_is_handled_by_its_type() -> None:
    slot = Slot()

    async def answer(_: Receive) -> Response:
        raise KeyError("tea")

    async def missing(_: Request, error: LookupError) -> Response:
        return JSONResponse({"missing": error.args[0]}, 404)

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        await DeferredResponse(answer, slot)(scope, receive, send)

    caller = Caller(DeferredMiddleware(route, errors={LookupError: missing}))
    await caller.asking

    assert [it.get("status", it.get("body")) for it in caller.said] == [404, b'{"missing":"tea"}']
    assert slot.released == 1


async def test_an_error_after_the_route_frees_the_place() -> None:
    slot = Slot()

    async def answer(_: Receive) -> Response:
        raise AssertionError("nobody waits for it")

    async def breaks(scope: Scope, receive: Receive, send: Send) -> None:
        await DeferredResponse(answer, slot)(scope, receive, send)
        raise ValueError("broken")

    caller = Caller(DeferredMiddleware(breaks))
    with pytest.raises(ValueError, match="broken"):
        await caller.asking

    assert slot.released == 1


async def test_a_deferred_response_without_the_middleware_raises_an_error() -> None:
    async def answer(_: Receive) -> Response:
        raise AssertionError("nobody waits for it")

    caller = Caller(DeferredResponse(answer, Slot()))
    with pytest.raises(AssertionError, match="needs DeferredMiddleware"):
        await caller.asking


async def test_a_cancelled_wait_frees_its_place() -> None:
    begun, slot = asyncio.Event(), Slot()

    async def answer(_: Receive) -> Response:
        begun.set()
        await asyncio.Event().wait()
        return Response()

    async def route(_: Request) -> Response:
        return DeferredResponse(answer, slot)

    caller = Caller(app_of(route))
    await begun.wait()
    caller.asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller.asking

    assert slot.released == 1
