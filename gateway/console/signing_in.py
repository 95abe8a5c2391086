"""Sign in with an API key, sign out, and choose the tenant and the theme."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict, Field, SecretStr
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from shardclock.api.codes import NOT_ALLOWED, REFUSED
from shardclock.loopback import is_loopback
from shardclock_server.gateway.console.access import of_shown_tenant, signed_in
from shardclock_server.gateway.console.addresses import ROOT, url_of, within
from shardclock_server.gateway.console.cookies import THEME, THEMES, drop_cookie, set_cookie
from shardclock_server.gateway.console.forms import form_of
from shardclock_server.gateway.console.shell import page, respond
from shardclock_server.gateway.gateway import gateway_of
from shardclock_server.gateway.requests.callers import SESSION_COOKIE, TENANT_COOKIE, Caller, KeyHolders, is_tenant
from shardclock_server.gateway.requests.origins import host_of
from shardclock_server.gateway.requests.problems import Problem
from shardclock_server.service import sign_ins
from shardclock_server.sql.keys.sessions import SessionHolder
from shardclock_server.sql.served import NO_TENANTS
from shardclock_server.timers.model import NAME_RULE
from shardclock_server.timers.refusal import shortened

SIGN_IN = "/sign-in"
YEAR_S = 365 * 24 * 3600
CHOICE_S = 30 * 24 * 3600

router = APIRouter(prefix=ROOT, include_in_schema=False)


class SignInForm(BaseModel):
    """The API key, and the page to show next."""

    model_config = ConfigDict(extra="forbid")

    key: SecretStr = SecretStr("")  # no maximum length, because the refusal of a long key would show the key
    to: str = Field("/", max_length=4_000)


class TenantForm(BaseModel):
    """The tenant that an operator chooses, and the page to show next."""

    model_config = ConfigDict(extra="forbid")

    tenant: str = Field("", max_length=1_000)
    to: str = Field("/", max_length=4_000)


class ThemeForm(BaseModel):
    """The chosen theme; if it is missing, the browser's theme applies."""

    model_config = ConfigDict(extra="forbid")

    theme: str = Field("", max_length=20)
    to: str = Field("/", max_length=4_000)


@router.get(SIGN_IN)
async def show_sign_in(
    request: Request, to: Annotated[str, Query(max_length=4_000)] = "/", signed_out: bool = False
) -> Response:
    """Show the sign-in page; a gateway without keys has no such page.

    After a sign-out from the console, the page links to the sign-out of the identity provider.
    """
    gateway = gateway_of(request)
    if not isinstance(gateway.callers, KeyHolders):
        return RedirectResponse(within(request, to), HTTPStatus.SEE_OTHER)
    leaves = await gateway.single_sign_on.sign_out_url() if signed_out and gateway.single_sign_on else None
    return sign_in_page(request, to, leaves=leaves)


def sign_in_page(
    request: Request, to: str, *, error: str | None = None, status: int = HTTPStatus.OK, leaves: str | None = None
) -> Response:
    """Render the sign-in page, with the sentence of a refusal, or with the URL of the provider's sign-out."""
    single_sign_on = gateway_of(request).single_sign_on
    provider = single_sign_on.registration.host if single_sign_on else None
    values = {"title": "Sign in", "to": to, "error": error, "provider": provider, "leaves": leaves}
    return respond(request, "sign_in.html", values, status=status)


@router.post(SIGN_IN)
async def sign_in(request: Request) -> Response:
    """Exchange an API key for a session."""
    gateway, form = gateway_of(request), await form_of(request, SignInForm)
    if not isinstance(gateway.callers, KeyHolders):
        return RedirectResponse(within(request, form.to), HTTPStatus.SEE_OTHER)
    try:
        _require_safe(request)
        key = await gateway.callers.key_of(form.key.get_secret_value())
    except Problem as problem:
        return sign_in_page(request, form.to, error=str(problem), status=problem.code.status)
    response = RedirectResponse(within(request, form.to), HTTPStatus.SEE_OTHER)
    await begin_session(request, response, key)
    return response


async def begin_session(request: Request, response: Response, holder: SessionHolder) -> None:
    """Start a session, and send the session's token to the browser.

    errors:  StoreUnavailable  the outcome is unknown: the person signs in again
    """
    async with gateway_of(request).pool.session(NO_TENANTS) as session:
        signed = await sign_ins.begin(session, holder)
    set_cookie(request, response, SESSION_COOKIE, signed.token, lasts_s=int(sign_ins.LIFETIME.total_seconds()))


def _require_safe(request: Request) -> None:
    """Refuse a sign-in by plain HTTP from another machine, because the key would travel in clear text.

    Behind a proxy each request arrives by plain HTTP. Such a request must have the HTTPS address of the gateway in
    `Host`, or in `Origin` if the proxy replaces `Host`.

    errors:  Problem
    """
    url = gateway_of(request).settings.gateway_url or ""
    given = {(request.headers.get("Host") or "").lower(), host_of(request.headers.get("Origin", ""))}
    is_by_proxy = url.startswith("https:") and host_of(url) in given
    if request.url.scheme != "https" and not is_by_proxy and not is_loopback(request.url.hostname or ""):
        raise Problem(
            NOT_ALLOWED,
            "a key must not travel by plain HTTP: reach the console by https, and behind a proxy set"
            " SHARDCLOCK_GATEWAY_URL to its https address",
        )


@router.post("/sign-out")
async def sign_out(request: Request) -> Response:
    """End the session."""
    gateway, token = gateway_of(request), request.cookies.get(SESSION_COOKIE, "")
    caller = await gateway.callers.viewer_of(request.headers, request.cookies)
    if isinstance(gateway.callers, KeyHolders) and sign_ins.is_token(token):
        async with gateway.pool.session(NO_TENANTS) as session:
            await sign_ins.end(session, token)
        gateway.callers.sessions.forget(token)
    is_person = caller is not None and caller.subject is not None
    response = RedirectResponse(
        url_of(request, SIGN_IN, signed_out="true" if is_person else None), HTTPStatus.SEE_OTHER
    )
    for name in (SESSION_COOKIE, TENANT_COOKIE):
        drop_cookie(request, response, name)
    return response


@router.get("/account")
async def show_account(
    request: Request, caller: Annotated[Caller, Depends(signed_in)], to: str = "/", tenant: str | None = None
) -> Response:
    """Show the caller's key and rights, and two forms: choose a tenant (filled in with `tenant`), choose a theme."""
    options = [(name, name) for name in caller.choices or ()]
    return page(
        request,
        caller,
        "account.html",
        title="Account",
        to=to,
        tenant=tenant or caller.tenant_id,
        tenant_options=options,
        live=False,
        personal=True,
    )


@router.post("/tenant")
async def choose_tenant(request: Request, caller: Annotated[Caller, Depends(of_shown_tenant)]) -> Response:
    """Choose the tenant of the next pages; an operator may act for each tenant."""
    form = await form_of(request, TenantForm)
    if caller.choices is not None and form.tenant not in caller.choices:
        caller.require_operator()
        raise Problem(
            NOT_ALLOWED, f"tenant {shortened(form.tenant)} is not a tenant of your key; choose a tenant of the list"
        )
    if not is_tenant(form.tenant):
        raise Problem(REFUSED, f"tenant {shortened(form.tenant)} is refused: it must be {NAME_RULE}")
    response = RedirectResponse(within(request, form.to), HTTPStatus.SEE_OTHER)
    set_cookie(request, response, TENANT_COOKIE, form.tenant, lasts_s=CHOICE_S)
    return response


@router.post("/theme")
async def choose_theme(request: Request) -> Response:
    """Choose the light theme, the dark theme, or the browser's theme."""
    form = await form_of(request, ThemeForm)
    response = RedirectResponse(within(request, form.to), HTTPStatus.SEE_OTHER)
    if form.theme in THEMES:
        set_cookie(request, response, THEME, form.theme, lasts_s=YEAR_S)
    else:
        drop_cookie(request, response, THEME)
    return response


def sign_in_redirect(request: Request, to: str) -> Response:
    """Redirect to the sign-in page, which later redirects to the requested page."""
    target = url_of(request, SIGN_IN, to=None if to == "/" else to)
    return RedirectResponse(target, HTTPStatus.SEE_OTHER, headers={"Cache-Control": "no-store"})
