"""Render the console's templates with the shared values and the security headers."""

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from shardclock_server.gateway.console import formats
from shardclock_server.gateway.console.addresses import acting_for, path_of, url_of
from shardclock_server.gateway.console.assets import asset_url
from shardclock_server.gateway.console.cookies import MESSAGE, drop_cookie, message_of, theme_of
from shardclock_server.gateway.console.navigation import links_for
from shardclock_server.gateway.console.refused_form import TypedTexts, refused_form_of
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.recording import SAFE_METHODS
from shardclock_server.service.keys import allows
from shardclock_server.service.wording import counted, span_of, until_of

# No inline scripts or styles, and no foreign origins. A tenant's text can't run as a script, even if a template does
# not escape it.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
PERSONAL = "private, no-store"
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # not `no-referrer`, because browsers would send `Origin: null` with each form
    "Cache-Control": "private, no-cache",
    "Vary": "Cookie, Accept-Encoding",
}


def _environment() -> Environment:
    found = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    found.filters |= {
        "iso": formats.iso,
        "shown": formats.shown,
        "relative": formats.relative,
        "duration": formats.duration,
        "elapsed": formats.elapsed,
        "count": formats.count,
        "counted": counted,
        "span": span_of,
        "until": until_of,
    }
    return found


TEMPLATES = _environment()


def page(
    request: Request, caller: Caller, template: str, *, status: int = HTTPStatus.OK, **values: Any
) -> HTMLResponse:
    """Render a page of a signed-in caller; `title` is required, `error` is the sentence of a refusal.

    `live=False` is for a page that must not reload, such as a page that shows a secret once, or reads many rows.
    `personal=True` is for a page with the caller's name: this page is never shared. The templates of other pages get
    the caller without its key and name.
    """
    is_personal = values.pop("personal", False)
    is_live = values.pop("live", status == HTTPStatus.OK)
    refused = refused_form_of(request)
    if refused is not None:
        status, is_live, values["error"] = refused.problem.code.status, False, str(refused.problem)
    paths = request.app.state.console_paths
    shared = {
        "caller": caller if is_personal else replace(caller, key=None, name=None, subject=None),
        "links": links_for(caller, paths),
        "can": partial(allows, caller.scopes),
        "acting": partial(acting_for, caller.tenant_id, _shown_on(request)),
        "is_live": is_live,
    }
    response = respond(request, template, shared | values, status=status)
    if is_personal:
        response.headers["Cache-Control"] = PERSONAL
    if refused is not None:
        response.headers.update(refused.problem.headers)
    return response


def _shown_on(request: Request) -> str:
    """Return the path of the page that shows the forms.

    A response to a form can't be loaded again, so its forms name the page of the earlier form.
    """
    return path_of(request) if request.method in SAFE_METHODS else getattr(request.state, "shown_on", "")


def respond(request: Request, template: str, values: dict[str, Any], *, status: int) -> HTMLResponse:
    """Render a template, and show the message of the last change once."""
    message = message_of(request)
    shared: dict[str, Any] = {
        "url": partial(url_of, request),
        "asset": partial(asset_url, request),
        "here": path_of(request),
        "can_refresh": request.method in SAFE_METHODS,  # the response to a form can't be loaded again
        "now": datetime.now(UTC),
        "theme": theme_of(request),
        "message": message,
        "error": None,
        "typed": TypedTexts(refused_form_of(request)),
        "caller": None,
        "is_live": False,
        "status": status,
    }
    body = TEMPLATES.get_template(template).render(shared | values)
    response = HTMLResponse(body, status, HEADERS)
    if message is not None:
        drop_cookie(request, response, MESSAGE)
    return response


def is_for_one_viewer(response: Response) -> bool:
    """Return whether a page must not be shared: it shows its viewer's name, sets a cookie, or is a refusal."""
    is_personal = response.headers.get("Cache-Control") == PERSONAL
    return is_personal or response.status_code != HTTPStatus.OK or "set-cookie" in response.headers
