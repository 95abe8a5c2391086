"""The cursors of pages: the sort keys of a page's last row, as a JSON array."""

import json
from datetime import datetime
from typing import Annotated, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from shardclock.api.codes import invalid
from shardclock_server.timers.model import BIGINT_MAX
from shardclock_server.timers.refusal import Refusal, shortened

Position = Annotated[int, Field(ge=0, le=BIGINT_MAX)]  # a key, or the number of a record
C = TypeVar("C", bound=tuple[object, ...])


def write_cursor(cursor: tuple[object, ...]) -> str:
    """Format a cursor as the `next` of a page."""
    return json.dumps(cursor, default=datetime.isoformat)


def read_cursor(model: type[C], page: str | None, source: str) -> C | None:
    """Parse the `next` of an earlier page; if `page` is None, the caller wants the first page.

    errors:  Refusal  the text is not from `source`, or a part is out of range
    """
    if page is None:
        return None
    try:
        return TypeAdapter(model).validate_json(page, strict=True)
    except ValidationError:
        raise Refusal.of(invalid("page"), why=f"{shortened(page)} is not {source}") from None
