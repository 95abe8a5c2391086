"""Render a page for a refusal or an error in the console; without a session, send the browser to the sign-in page."""

from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from shardclock_server.gateway.console.access import SignInNeeded, signed_in
from shardclock_server.gateway.console.addresses import base_of, path_of
from shardclock_server.gateway.console.refused_form import is_unread, note_refused_form, page_of_form
from shardclock_server.gateway.console.shell import page, respond
from shardclock_server.gateway.console.signing_in import sign_in_redirect
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.origins import split_url
from shardclock_server.gateway.requests.problems import Problem
from shardclock_server.gateway.requests.recording import SAFE_METHODS
from shardclock_server.sql.session import StoreUnavailable


def problem_page(request: Request, problem: Problem) -> Response:
    """Render the page of a refused form again; otherwise, a page with the sentence, the typed texts and a link back."""
    refused = note_refused_form(request, problem)
    caller: Caller | None = getattr(request.state, "viewer", None)
    status = problem.code.status
    values: dict[str, Any] = {"title": problem.code.title, "error": str(problem), "back": _page_before(request)}
    values["is_unread"] = is_unread(request)
    if caller is None:
        response = respond(request, "problem.html", values, status=status)
    else:
        response = page(request, caller, "problem.html", status=status, **values)
    if "Retry-After" in problem.headers:
        response.headers["Retry-After"] = problem.headers["Retry-After"]
    return response if refused is None else page_of_form(request, refused, response)


async def find_viewer(request: Request) -> None:
    """If a viewer is signed in, set `request.state.viewer`, so that the error page of an unknown path has a menu."""
    with suppress(SignInNeeded, Problem, StoreUnavailable):
        await signed_in(request)


async def require_sign_in(request: Request, _: SignInNeeded) -> Response:
    """Send the browser to the sign-in page; after the sign-in, the browser returns to the page or to the form."""
    if request.method in SAFE_METHODS:
        return sign_in_redirect(request, path_of(request))
    before = _page_before(request)
    return sign_in_redirect(request, before.removeprefix(base_of(request)) or "/")


def _page_before(request: Request) -> str:
    """Return the URL of the page from which the request came, or the URL of the first page."""
    came = split_url(request.headers.get("Referer", ""))
    base = base_of(request)
    is_ours = came.path == base or came.path.startswith(f"{base}/")
    if not is_ours or came.netloc != request.headers.get("Host") or came.path.startswith(f"{base}/sign-in"):
        return base
    return f"{came.path}?{came.query}" if came.query else came.path
