"""Sign in at the identity provider: redirect the browser, and start a session with the provider's answer.

The answer comes from another site, so the cookie of the attempt is `SameSite=Lax`. The browser sends the session's
`SameSite=Strict` cookie only for a request from a page of the console, so `signed_in.html` opens the first page.
"""

from http import HTTPStatus
from typing import Annotated

import structlog
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from shardclock.api.codes import NOT_ALLOWED, NOT_FOUND, UNAVAILABLE
from shardclock_server.gateway.console.addresses import HOME, ROOT, within
from shardclock_server.gateway.console.cookies import cookie_of, drop_cookie, set_cookie
from shardclock_server.gateway.console.shell import PERSONAL, respond
from shardclock_server.gateway.console.signing_in import SIGN_IN, begin_session, sign_in_page
from shardclock_server.gateway.gateway import gateway_of
from shardclock_server.gateway.oidc.attempts import LASTS_S, SignInAttempt
from shardclock_server.gateway.oidc.refusals import ProviderFailed, SignInRefused
from shardclock_server.gateway.oidc.single_sign_on import SingleSignOn
from shardclock_server.gateway.requests.problems import Problem

ATTEMPT_COOKIE = "shardclock_sign_in"
PATH_CHARACTERS_MAX = 2_000  # a browser drops a cookie of more than 4,096 bytes

router = APIRouter(prefix=f"{ROOT}{SIGN_IN}", include_in_schema=False)


@router.get("/provider")
async def begin(request: Request, to: Annotated[str, Query(max_length=4_000)] = HOME) -> Response:
    """Start an attempt: send the browser to the identity provider."""
    try:
        attempt, url = await _single_sign_on(request).begin(to if len(to) <= PATH_CHARACTERS_MAX else HOME)
    except ProviderFailed as failure:
        return _failed(request, to, failure)
    response = RedirectResponse(url, HTTPStatus.SEE_OTHER, headers={"Cache-Control": PERSONAL})
    set_cookie(request, response, ATTEMPT_COOKIE, attempt.cookie, lasts_s=LASTS_S, follows_links=True)
    return response


@router.get("/callback")
async def finish(request: Request) -> Response:
    """Finish an attempt: start a session for the person whom the identity provider names."""
    single_sign_on = _single_sign_on(request)
    to = HOME
    try:
        attempt = SignInAttempt.read(cookie_of(request, ATTEMPT_COOKIE))
        to = attempt.to
        person = await single_sign_on.finish(attempt, request.query_params)
    except SignInRefused as refusal:
        structlog.get_logger().warning("a sign-in at the identity provider is refused", why=str(refusal))
        response = sign_in_page(request, to, error=str(refusal), status=NOT_ALLOWED.status)
    except ProviderFailed as failure:
        response = _failed(request, to, failure)
    else:
        values = {"title": "Signed in", "target": within(request, to)}
        response = respond(request, "signed_in.html", values, status=HTTPStatus.OK)
        response.headers["Refresh"] = f"0; url={values['target']}"
        await begin_session(request, response, person)
    response.headers["Cache-Control"] = PERSONAL
    drop_cookie(request, response, ATTEMPT_COOKIE)
    return response


def _single_sign_on(request: Request) -> SingleSignOn:
    found = gateway_of(request).single_sign_on
    if found is None:
        raise Problem(NOT_FOUND, "this gateway has no identity provider; sign in with an API key")
    return found


def _failed(request: Request, to: str, failure: ProviderFailed) -> Response:
    """Show the sign-in page, and log the reason, which may name addresses within the operators' network."""
    structlog.get_logger().warning("the identity provider has failed", why=str(failure))
    provider = _single_sign_on(request).registration.host
    error = f"{provider} can't sign you in now: try again, or sign in with an API key; the gateway's log has the reason"
    return sign_in_page(request, to, error=error, status=UNAVAILABLE.status)
