"""Of a request whose caller waits little is kept, and its place is left however its answer comes."""

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
from shardclock_server.gateway.waits.later import Deferring, Later
from shardclock_server.service import processes as use_cases
from shardclock_server.sql.session import StoreUnavailable
from shardclock_server.timers.model import NewTimer
from tests.support.bpmn import model
from tests.support.factories import query
from tests.support.gateways import Api, serving
from tests.support.waiting import eventually

HOUR = {"delay": "PT1H"}
XML = {"Content-Type": "application/xml"}
OF_A_REQUEST = (Request, NewTimer, Later)


@pytest.fixture(autouse=True)
def _own_objects(collector: None) -> None:
    """Hide the objects of all other tests from the garbage collector: to look through them takes seconds."""
    gc.freeze()


class Body:
    """What a request has brought."""


class Place:
    """Count who has left it."""

    left = 0

    def leave(self) -> None:
        """Leave."""
        self.left += 1


class Caller:
    """Ask an application for `/`, and keep what it answers."""

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
    """Make an application of one route that answers later, as the gateway has it."""
    app = FastAPI()
    app.get("/", response_model=None)(route)
    app.add_middleware(Deferring, **more)
    return app


def kept(*kinds: type, beside: Sequence[object] = ()) -> list[Any]:
    """Find objects of these types that are still there, beside those that were there before."""
    gc.collect()
    known = {id(it) for it in beside}
    return [it for it in gc.get_objects() if type(it) in kinds and id(it) not in known]


@pytest.mark.parametrize(
    ("method", "path"),
    [("post", "/v1/timers"), ("put", "/v1/timers/by-name/tea"), ("get", "/v1/timers/1/end")],
)
async def test_while_a_caller_waits_for_an_end_its_request_is_gone(api: Api, method: str, path: str) -> None:
    assert (await api.post("/v1/timers", HOUR)).json["timer_key"] == 1
    before = kept(*OF_A_REQUEST)  # of other tests
    body = () if method == "get" else (HOUR,)
    waiting = asyncio.create_task(getattr(api, method)(f"{path}?wait=PT30S", *body))
    await eventually(lambda: api.gateway.timer_ends.count == 1)
    await eventually(lambda: not kept(*OF_A_REQUEST, beside=before))

    api.stop()
    assert (await waiting).status in {201, 204}
    assert api.gateway.wait_places.taken == 0


@pytest.mark.parametrize(("method", "path"), [("post", "/v1/processes/p/start"), ("get", "/v1/instances/{}")])
async def test_while_a_caller_waits_for_an_instance_its_request_is_gone(api: Api, method: str, path: str) -> None:
    await api.ask_raw("POST", "/v1/processes", model('<startEvent id="s"/>'), XML)
    key = (await api.post("/v1/processes/p/start", {})).json["instance_key"]  # no engine runs
    before = kept(*OF_A_REQUEST, StartRequest)
    body = () if method == "get" else ({"variables": {"order": 42}},)
    waiting = asyncio.create_task(getattr(api, method)(f"{path.format(key)}?wait=PT30S", *body))
    await eventually(lambda: api.gateway.instance_ends.count == 1)
    await eventually(lambda: not kept(*OF_A_REQUEST, StartRequest, beside=before))

    api.stop()
    answered = await waiting
    assert (answered.status, answered.json["state"]) == (201 if method == "post" else 200, "STARTING")
    assert api.gateway.wait_places.taken == api.gateway.quotas.count_waiting("default") == 0


async def test_who_waits_for_an_instance_that_is_gone_hears_so(api: Api, dsn: str) -> None:
    await api.ask_raw("POST", "/v1/processes", model('<startEvent id="s"/>'), XML)
    key = (await api.post("/v1/processes/p/start", {})).json["instance_key"]
    waiting = asyncio.create_task(api.get(f"/v1/instances/{key}?wait=PT30S"))
    await eventually(lambda: api.gateway.instance_ends.count == 1)
    await query(dsn, "delete from shardclock.deliveries")  # what starts it

    api.stop()
    (await waiting).assert_problem("not-found", 404, f"instance {key}")
    assert api.gateway.wait_places.taken == 0


async def test_who_waits_for_an_instance_while_postgres_goes_away_is_told_to_ask_again(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.ask_raw("POST", "/v1/processes", model('<startEvent id="s"/>'), XML)
    waiting = asyncio.create_task(api.post("/v1/processes/p/start?wait=PT30S", {}))
    await eventually(lambda: api.gateway.instance_ends.count == 1)

    async def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("the connection was lost")

    monkeypatch.setattr(use_cases, "find", away)
    api.stop()

    answered = await waiting
    answered.assert_problem("unavailable", 503, "the connection was lost")
    assert int(answered.headers["Retry-After"]) > 0
    assert api.gateway.wait_places.taken == 0


async def test_who_is_refused_or_hangs_up_has_no_place(dsn: str) -> None:
    async with serving(dsn, gateway_waits_max=1) as api:
        named = {**HOUR, "name": "tea"}
        assert (await api.post("/v1/timers", named)).status == 201
        assert (await api.post("/v1/timers?wait=PT30S", named)).status == 409
        assert api.gateway.wait_places.taken == api.gateway.quotas.count_waiting("default") == 0

        for asking in (api.post("/v1/timers?wait=PT30S", HOUR), api.get("/v1/timers/1/end?wait=PT30S")):
            waiting = asyncio.create_task(asking)
            await eventually(lambda: api.gateway.timer_ends.count == 1)
            waiting.cancel()
            await eventually(lambda: api.gateway.wait_places.taken == 0)
            assert api.gateway.quotas.count_waiting("default") == 0

    async with serving(dsn, gateway_waits_max=1, gateway_waiters_max=0) as api:
        for _ in range(2):
            (await api.get("/v1/timers/1/end?wait=PT30S")).assert_problem("over-quota", 429, "0 callers")
        assert api.gateway.wait_places.taken == 0


async def test_while_a_caller_waits_what_routed_and_checked_its_request_is_gone() -> None:
    told, place = asyncio.Event(), Place()

    async def answer(receive: Receive) -> Response:
        await told.wait()
        return JSONResponse({"received": (await receive())["type"]})

    async def route(request: Request, body: Annotated[Body, Depends(Body)]) -> Response:
        assert [it for it in request.scope.values() if isinstance(it, AsyncExitStack)], "which are to go"
        assert kept(Body) == [body]
        return Later(answer, place)

    before = kept(Request, Later)
    caller = Caller(app_of(route))
    await asyncio.sleep(0.05)

    assert kept(Body, Request, Later, beside=before) == []
    assert not [it for it in caller.scope.values() if isinstance(it, AsyncExitStack)]
    assert (caller.said, place.left) == ([], 0)
    told.set()
    await caller.asking
    assert [it["type"] for it in caller.said] == ["http.response.start", "http.response.body"]
    assert caller.said[1]["body"] == b'{"received":"http.disconnect"}'
    assert place.left == 1


async def test_an_answer_that_fails_leaves_its_place() -> None:
    place = Place()

    async def answer(_: Receive) -> Response:
        raise ValueError("no such record")

    async def route(_: Request) -> Response:
        return Later(answer, place)

    async def hidden(_: Request, __: Exception) -> Response:
        return Response("a fault of ours must be seen as one", 404)

    caller = Caller(app_of(route, errors={Exception: hidden}))
    with pytest.raises(ValueError, match="no such record"):
        await caller.asking

    assert place.left == 1
    assert caller.said[0]["status"] == 500


async def test_an_error_of_an_answer_is_answered_as_one_of_its_kind() -> None:
    place = Place()

    async def answer(_: Receive) -> Response:
        raise KeyError("tea")

    async def missing(_: Request, error: LookupError) -> Response:
        return JSONResponse({"missing": error.args[0]}, 404)

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        await Later(answer, place)(scope, receive, send)

    caller = Caller(Deferring(route, errors={LookupError: missing}))
    await caller.asking

    assert [it.get("status", it.get("body")) for it in caller.said] == [404, b'{"missing":"tea"}']
    assert place.left == 1


async def test_what_breaks_behind_the_route_leaves_the_place_too() -> None:
    place = Place()

    async def answer(_: Receive) -> Response:
        raise AssertionError("nobody waits for it")

    async def breaks(scope: Scope, receive: Receive, send: Send) -> None:
        await Later(answer, place)(scope, receive, send)
        raise ValueError("broken")

    caller = Caller(Deferring(breaks))
    with pytest.raises(ValueError, match="broken"):
        await caller.asking

    assert place.left == 1


async def test_an_application_that_would_never_answer_says_so() -> None:
    async def answer(_: Receive) -> Response:
        raise AssertionError("nobody waits for it")

    caller = Caller(Later(answer, Place()))
    with pytest.raises(AssertionError, match="within Deferring"):
        await caller.asking


async def test_who_goes_while_he_waits_leaves_his_place() -> None:
    place = Place()

    async def answer(_: Receive) -> Response:
        await asyncio.Event().wait()
        return Response()

    async def route(_: Request) -> Response:
        return Later(answer, place)

    caller = Caller(app_of(route))
    await asyncio.sleep(0.05)
    caller.asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller.asking

    assert place.left == 1
