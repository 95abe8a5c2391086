"""Answer equal requests within a second with one rendered page, so that many viewers cost as much as one viewer."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, NamedTuple

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from shardclock_server.gateway.console.access import require_own_page, signed_in
from shardclock_server.gateway.console.addresses import ROOT
from shardclock_server.gateway.console.compression import GZIP, accepts_gzip, compressed
from shardclock_server.gateway.console.cookies import MESSAGE, theme_of
from shardclock_server.gateway.console.refused_form import refused_form_of
from shardclock_server.gateway.console.shell import is_for_one_viewer
from shardclock_server.gateway.requests.callers import Caller

FRESH_S = 1.0
PAGES_MAX = 256  # the cache holds at most this many pages; a page has about 40 KiB at most
Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class RenderedPage:
    """A rendered page."""

    body: bytes
    zipped: bytes
    status: int
    headers: dict[str, str]

    @classmethod
    def of(cls, response: HTMLResponse) -> "RenderedPage":
        """Create the cache entry of a response; its body is compressed once for all viewers."""
        headers = {name: value for name, value in response.headers.items() if name != "content-length"}
        body = bytes(response.body)
        return cls(body, compressed(body), response.status_code, headers)

    def response(self, request: Request) -> Response:
        """Make a response with this page, compressed if the browser accepts gzip."""
        if accepts_gzip(request):
            return HTMLResponse(self.zipped, self.status, self.headers | GZIP)
        return HTMLResponse(self.body, self.status, self.headers)


class PageKey(NamedTuple):
    """The key of a page in the cache: all values on which the page depends."""

    tenant_id: str
    scopes: frozenset[str]
    is_operator: bool
    theme: str | None
    url: tuple[str, bytes, bytes]


class PageCache:
    """A cache of the pages that were rendered in the last second.

    Concurrent requests for one page wait for the first request.
    """

    def __init__(self) -> None:
        self._pages: OrderedDict[PageKey, tuple[float, asyncio.Future[RenderedPage | None]]] = OrderedDict()

    async def respond(self, key: PageKey, request: Request, render: Handler) -> Response:
        """Return the cached page with this key, or render the page; a page for one viewer is not cached.

        errors:  as `render`
        """
        now_s = time.monotonic()
        known = self._pages.get(key)
        if known is not None and known[0] > now_s and (shared := await asyncio.shield(known[1])) is not None:
            return shared.response(request)
        rendered: asyncio.Future[RenderedPage | None] = asyncio.get_running_loop().create_future()
        self._pages[key] = (now_s + FRESH_S, rendered)
        self._pages.move_to_end(key)
        while len(self._pages) > PAGES_MAX:
            self._pages.popitem(last=False)
        try:
            response = await render(request)
        except BaseException:
            self._drop(key, rendered)
            raise
        if is_for_one_viewer(response) or not isinstance(response, HTMLResponse):
            self._drop(key, rendered)
            return response
        shared = RenderedPage.of(response)
        rendered.set_result(shared)
        return shared.response(request)

    def forget(self, tenant_id: str | None) -> None:
        """Drop a tenant's pages after a change, including pages that are being rendered; None: drop all pages."""
        for key in [key for key in self._pages if tenant_id in (None, key.tenant_id)]:
            del self._pages[key]

    def _drop(self, key: PageKey, rendered: "asyncio.Future[RenderedPage | None]") -> None:
        """End the wait of other requests for this page; each of these requests then renders the page itself."""
        rendered.set_result(None)
        if (held := self._pages.get(key)) is not None and held[1] is rendered:
            del self._pages[key]


class PageRoute(APIRoute):
    """The route of a page: it checks the sign-in, then looks in the cache; only on a miss, it renders the page."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return a handler that looks in the cache before it calls the handler of the route."""
        render = super().get_route_handler()

        async def handle(request: Request) -> Response:
            pages: PageCache = request.app.state.pages
            if request.method != "GET":
                try:
                    return await render(request)
                finally:
                    _forget_changed(request, pages)
            if MESSAGE in request.cookies or refused_form_of(request) is not None:
                return await render(request)
            await require_own_page(request)
            key = _key_of(request, await signed_in(request))
            return await pages.respond(key, request, render)

        return handle


def _forget_changed(request: Request, pages: PageCache) -> None:
    """Drop the pages that may show the changed data. An operator's change may affect the pages of all tenants."""
    caller: Caller | None = getattr(request.state, "viewer", None)
    if caller is not None:
        pages.forget(None if caller.is_operator else caller.tenant_id)


def _key_of(request: Request, caller: Caller) -> PageKey:
    scope = request.scope
    url = (scope.get("root_path", ""), scope["raw_path"], scope["query_string"])
    return PageKey(caller.tenant_id, frozenset(caller.scopes), caller.is_operator, theme_of(request), url)


def page_router() -> APIRouter:
    """Create the router of a family of pages; paths are relative to the console, such as /timers."""
    return APIRouter(prefix=ROOT, route_class=PageRoute, include_in_schema=False)
