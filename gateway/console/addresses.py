"""Build the console's URLs, which begin with the path under which a proxy serves the gateway."""

from collections.abc import Iterable
from urllib.parse import quote, urlencode

from starlette.requests import Request

from shardclock_server.gateway.requests.origins import split_url

ROOT = "/console"
HOME = "/"
# The longest path of a page in the address of a form, because some proxies refuse longer addresses.
SHOWN_ON_CHARS_MAX = 2_000


def base_of(request: Request) -> str:
    """Return the console's base path, such as /shardclock/console."""
    return f"{request.scope.get('root_path', '')}{ROOT}"


def url_of(request: Request, path: str, /, *parts: object, **query: object) -> str:
    """Build the URL of a page; `parts` replace the `{}` of the path; query parameters with None or "" are left out."""
    written = path.format(*(quote(str(part), safe="") for part in parts)) if parts else path
    given = [(name, value) for name, value in query.items() if value not in (None, "")]
    base = base_of(request) + (written[1:] if written == HOME or written.startswith("/?") else written)
    return f"{base}?{urlencode(given)}" if given else base


def acting_for(tenant_id: str, shown_on: str, action: str, *, hidden: Iterable[str] = ()) -> str:
    """Add the page's tenant and path, and the names of hidden fields, to a form's address; see `of_shown_tenant`."""
    added = {"acting_for": tenant_id, "shown_on": shown_on if len(shown_on) <= SHOWN_ON_CHARS_MAX else ""}
    if names := ",".join(hidden):
        added["hidden"] = names
    return f"{action}{'&' if '?' in action else '?'}{urlencode(added)}"


def path_of(request: Request) -> str:
    """Return the request's path within the console, with the query, as sent by the browser."""
    raw = request.scope["raw_path"].decode("ascii", "replace").partition("?")[0]
    query = request.scope["query_string"].decode("ascii", "replace")
    path = raw.removeprefix(base_of(request)) or HOME
    return f"{path}?{query}" if query else path


def is_console(request: Request) -> bool:
    """Return whether a request is for the console."""
    path: str = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    return path == ROOT or path.startswith(f"{ROOT}/")


def within(request: Request, path: str | None) -> str:
    """Build the URL of the console page that a request names; for any other text, return the first page's URL."""
    parts = split_url(path or HOME)
    is_ours = not parts.scheme and not parts.netloc and parts.path.startswith("/") and "\\" not in parts.path
    is_plain = is_ours and parts.path.isascii() and parts.path.isprintable() and parts.query.isprintable()
    if not is_plain:
        return base_of(request)
    return url_of(request, parts.path + (f"?{parts.query}" if parts.query else ""))
