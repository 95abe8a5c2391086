"""Collect the template values that all filtered lists share."""

from typing import Any

from starlette.requests import Request

from shardclock_server.gateway.console.addresses import url_of
from shardclock_server.gateway.console.forms import Filter

ROWS = 35  # a page with 35 rows has at most 40 KiB, with style and scripts


def list_values(request: Request, path: str, asked: Filter[Any], after: object) -> dict[str, Any]:
    """Return a filter, its error and status, and the links to the next page and to the first page.

    shape:   `chosen` has the typed texts of the filter; `after` is the cursor of the next page, None on the last page
    """
    known = type(asked.model).model_fields.keys() - {"after"}
    chosen = {name: value for name, value in asked.given.items() if name in known}
    return {
        "status": asked.status,
        "error": asked.error,
        "asked": asked,
        "chosen": chosen,
        "next_url": None if after is None else url_of(request, path, **chosen, after=after),
        "first_url": url_of(request, path, **chosen) if "after" in asked.given else None,
    }
