"""Show the texts of a refused form again, so that the viewer corrects them instead of typing them again.

Each form names the page that shows it (`shown_on`). After a refusal, the gateway renders this page as for a GET. In
this page, the form with the same address shows the typed texts and the sentence. If the page has no such form any more,
or can't be rendered, the typed texts are listed instead, without the values of hidden fields. The sign-in form names no
page, so a key is never shown.
"""

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from shardclock_server.gateway.console.addresses import ROOT, base_of, path_of
from shardclock_server.gateway.requests.origins import split_url
from shardclock_server.gateway.requests.problems import Problem
from shardclock_server.gateway.requests.recording import OF_FORMS

Texts = Mapping[str, Sequence[str]]
Address = tuple[str, tuple[tuple[str, str], ...]]
NO_TEXTS: Texts = {}


@dataclass(frozen=True, slots=True)
class RefusedForm:
    """A form that was refused: its address, the texts of each field, the names of hidden fields, and the problem."""

    address: Address
    typed: Texts
    hidden: frozenset[str]
    problem: Problem


class TypedTexts:
    """The typed texts of a refused form, for the fields of a page's templates; empty without a refused form."""

    def __init__(self, refused: RefusedForm | None) -> None:
        self._refused = refused
        self._shown: Texts | None = None  # the texts of the form that has begun, if it is the refused form
        self._left = NO_TEXTS
        if refused is not None:
            self._left = {name: texts for name, texts in refused.typed.items() if name not in refused.hidden}

    def begin(self, *actions: str, hidden: Mapping[str, object] | None = None) -> bool:
        """Return whether the form that begins here is the refused form; a form may have several addresses.

        `hidden` has the values that distinguish forms with one address.
        """
        refused = self._refused
        if (
            refused is not None
            and refused.address in map(_address_of, actions)
            and all(refused.typed.get(name) == [str(value)] for name, value in (hidden or {}).items())
        ):
            self._shown, self._left = refused.typed, NO_TEXTS
        return self._shown is not None

    def end(self) -> str:
        """End the form that has begun."""
        self._shown = None
        return ""

    def value(self, name: str, value: Any) -> Any:
        """Return the typed text of a field; outside of the refused form, return the field's usual value."""
        return value if self._shown is None else next(iter(self._shown.get(name, ())), "")

    def is_ticked(self, name: str, value: str, *, usual: bool) -> bool:
        """Return whether one of several checkboxes with one name is ticked."""
        return usual if self._shown is None else value in self._shown.get(name, ())

    @property
    def left(self) -> list[tuple[str, str]]:
        """The typed texts that no form of the page shows."""
        return [(name, ", ".join(texts)) for name, texts in self._left.items()]


class PageOfForm(Response):
    """The response to a refused form: the page with the form, or `instead` if this page answers with a redirect."""

    def __init__(self, request: Request, shown_on: str, refused: RefusedForm, instead: Response) -> None:
        super().__init__(status_code=refused.problem.code.status)
        self._request, self._shown_on, self._refused, self._instead = request, shown_on, refused, instead

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Render the page by its own route, as for a GET."""
        parts = split_url(self._shown_on)
        path = base_of(self._request) + ("" if parts.path == "/" else parts.path)
        inner = {name: value for name, value in scope.items() if name not in ("route", "endpoint", "path_params")}
        inner |= {
            "method": "GET",
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": parts.query.encode(),
            "state": {"viewer": self._request.state.viewer, "refused_form": self._refused},
        }
        is_redirect = False

        async def send_page(message: MutableMapping[str, Any]) -> None:
            nonlocal is_redirect
            is_redirect = is_redirect or message.get("status") == HTTPStatus.SEE_OTHER
            if not is_redirect:
                await send(message)

        await self._request.app.router(inner, receive, send_page)
        if is_redirect:
            await self._instead(scope, receive, send)


def note_refused_form(request: Request, problem: Problem) -> RefusedForm | None:
    """Store the refused form for the templates; None: the request has no form of a page."""
    text: str | None = getattr(request.state, "form", None)
    if text is None or not hasattr(request.state, "shown_on"):
        return None
    typed = dict[str, list[str]]()
    for name, value in parse_qsl(text, errors="replace"):
        typed.setdefault(name, []).append(value)
    address = _address_of(base_of(request) + path_of(request))
    request.state.refused_form = refused = RefusedForm(address, typed, request.state.hidden, problem)
    return refused


def is_unread(request: Request) -> bool:
    """Return whether the form of a page was not read: the form is too large, or came too slowly."""
    return hasattr(request.state, "shown_on") and not hasattr(request.state, "form")


def page_of_form(request: Request, refused: RefusedForm, instead: Response) -> Response:
    """Return the page of a refused form, or `instead` if the form names no page.

    The result is also `instead` if the gateway or Postgres has failed, because then the page could fail, too.
    """
    shown_on: str = request.state.shown_on
    parts = split_url(shown_on)
    is_plain = not parts.scheme and not parts.netloc and shown_on.isascii() and shown_on.isprintable()
    has_failed = refused.problem.code.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    if not shown_on or has_failed or not is_plain or not _is_page(request, unquote(parts.path)):
        return instead
    return PageOfForm(request, shown_on, refused, instead)


def refused_form_of(request: Request) -> RefusedForm | None:
    """Return the refused form that the response shows."""
    found: RefusedForm | None = getattr(request.state, "refused_form", None)
    return found


def _address_of(action: str) -> Address:
    """Return a form's path and query, without the tenant and the path of its page."""
    path, _, query = action.partition("?")
    return unquote(path), tuple(it for it in parse_qsl(query) if it[0] not in OF_FORMS)


def _is_page(request: Request, path: str) -> bool:
    whole = ROOT + ("" if path == "/" else path)
    routes: Sequence[Route] = request.app.state.routes
    return any("GET" in (route.methods or ()) and route.path_regex.match(whole) for route in routes)
