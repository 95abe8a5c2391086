"""Defer responses, so that the request does not stay in memory during the caller's wait."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

DEFERRED = "deferred"  # A key in the state of a request.
# The names of closed exit stacks, which are removed because they use much memory.
STACKS = ("fastapi_middleware_astack", "fastapi_inner_astack", "fastapi_function_astack")


class Releasable(Protocol):
    """A slot that can be freed."""

    def release(self) -> None:
        """Free the slot."""


class DeferredResponse(Response):
    """A deferred response: it holds the caller's slot until `answer` has returned the final response.

    Headers and status of this object are ignored, because the client gets the final response.
    """

    def __init__(self, answer: Callable[[Receive], Awaitable[Response]], slot: Releasable) -> None:
        super().__init__()
        self.answer = answer
        self.slot = slot

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - as ASGI has it
        """Pass this response to `DeferredMiddleware`."""
        state = scope["state"]
        assert DEFERRED in state, "an application with deferred responses needs DeferredMiddleware"
        state[DEFERRED] = self


class DeferredMiddleware:
    """Wait for deferred responses after the application has finished with their requests, and send the responses.

    The application's error handlers don't run for these responses, so `errors` maps types of errors to handlers. Any
    other error is a bug of the gateway and is raised again.
    """

    def __init__(
        self,
        app: ASGIApp,
        errors: Mapping[Any, Callable[[Request, Any], Coroutine[Any, Any, Response]]] = {},
    ) -> None:
        self._app = app
        self._errors = errors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; send the response now or after the wait."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state[DEFERRED] = None
        try:
            await self._app(scope, receive, send)
        except BaseException:
            if (unsent := state.pop(DEFERRED)) is not None:
                unsent.slot.release()
            raise
        if (deferred := state.pop(DEFERRED)) is not None:
            answer, slot = deferred.answer, deferred.slot
            del deferred
            for name in STACKS:
                scope.pop(name, None)
            try:
                response = await answer(receive)
            except Exception as error:  # noqa: BLE001 - an error that is not in `errors` is raised again
                response = await self._answer_of(Request(scope, receive), error)
            finally:
                slot.release()
            await response(scope, receive, send)

    async def _answer_of(self, request: Request, error: Exception) -> Response:
        for kind in type(error).__mro__:
            if kind is not Exception and (answer := self._errors.get(kind)) is not None:
                return await answer(request, error)
        raise error
