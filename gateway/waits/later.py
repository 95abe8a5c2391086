"""Answers that come later: while a caller waits, no more of its request is kept than the answer needs.

Otherwise the body, and the objects that have routed and checked the request, would stay in memory for each of thousands
of waits.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

LATER = "later"  # the place in a request's state
STACKS = ("fastapi_middleware_astack", "fastapi_inner_astack", "fastapi_function_astack")  # closed, and of some size


class Place(Protocol):
    """A place of a waiting caller."""

    def leave(self) -> None:
        """Free the place."""


class Later(Response):
    """An answer that is made when its caller has waited, and holds a place until then.

    It is whatever `answer` returns, and nothing that was set on this one.
    """

    def __init__(self, answer: Callable[[Receive], Awaitable[Response]], place: Place) -> None:
        super().__init__()
        self.answer = answer
        self.place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - as ASGI has it
        """Leave it to `Deferring`."""
        state = scope["state"]
        assert LATER in state, "an application whose answers come later is within Deferring"
        state[LATER] = self


class Deferring:
    """Make an application's later answers, when the application is done with their requests.

    Who turns errors into answers is gone by then, so `errors` says how: by the type of the error, or of its base. What
    is not among them is a fault of ours.
    """

    def __init__(
        self,
        app: ASGIApp,
        errors: Mapping[Any, Callable[[Request, Any], Coroutine[Any, Any, Response]]] = {},
    ) -> None:
        self._app = app
        self._errors = errors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, now or later."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state[LATER] = None
        try:
            await self._app(scope, receive, send)
        except BaseException:
            if (left := state.pop(LATER)) is not None:
                left.place.leave()
            raise
        if (later := state.pop(LATER)) is not None:
            answer, place = later.answer, later.place
            del later
            for name in STACKS:
                scope.pop(name, None)
            try:
                response = await answer(receive)
            except Exception as error:  # noqa: BLE001 - what is not among `errors` is raised again
                response = await self._answer_of(Request(scope, receive), error)
            finally:
                place.leave()
            await response(scope, receive, send)

    async def _answer_of(self, request: Request, error: Exception) -> Response:
        for kind in type(error).__mro__:
            if kind is not Exception and (answer := self._errors.get(kind)) is not None:
                return await answer(request, error)
        raise error
