"""The console's cookies: the session, the chosen tenant and theme, and the message about the last change."""

from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import Response

from shardclock_server.gateway.console.addresses import base_of
from shardclock_server.gateway.gateway import gateway_of

THEME, MESSAGE = "shardclock_theme", "shardclock_message"
THEMES = ("light", "dark")
MESSAGE_S = 60
MESSAGE_BYTES_MAX = 3_000  # the limit of the quoted text, because a browser drops a cookie of more than 4,096 bytes
HTTPS = "https"


def is_https(request: Request) -> bool:
    """Return whether the browser reaches the console by HTTPS, directly or through a proxy."""
    url = gateway_of(request).settings.gateway_url
    return HTTPS in (request.url.scheme, (url or "").partition(":")[0])


def set_cookie(
    request: Request, response: Response, name: str, value: str, *, lasts_s: int, follows_links: bool = False
) -> None:
    """Set a cookie that scripts can't read and that the browser sends only from the console's own pages.

    `follows_links`: the browser also sends the cookie after a link or a redirect from another site.
    """
    response.set_cookie(
        name,
        quote(value),
        max_age=lasts_s,
        path=base_of(request),
        secure=is_https(request),
        httponly=True,
        samesite="lax" if follows_links else "strict",
    )


def drop_cookie(request: Request, response: Response, name: str) -> None:
    """Remove a cookie from the browser."""
    set_cookie(request, response, name, "", lasts_s=0)


def cookie_of(request: Request, name: str) -> str | None:
    """Return a cookie's value; None: the request has no such cookie."""
    value = request.cookies.get(name)
    return unquote(value) if value else None


def theme_of(request: Request) -> str | None:
    """Return the chosen theme; None: the browser's setting applies."""
    theme = cookie_of(request, THEME)
    return theme if theme in THEMES else None


def message_of(request: Request) -> str | None:
    """Return the message that the last change stored for the next page."""
    return cookie_of(request, MESSAGE)


def keep_message(request: Request, response: Response, message: str) -> None:
    """Store a message for the next page; a long message is cut."""
    while len(quote(message)) > MESSAGE_BYTES_MAX:
        message = f"{message[: len(message) * 3 // 4]}…"
    set_cookie(request, response, MESSAGE, message, lasts_s=MESSAGE_S)
