"""The cursors of lists: the `next` of a page, which the next request sends as `after` in its URL.

A list's own cursor is any text, such as a timer's name or a moment with its offset. The API encodes this text as
URL-safe Base64.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode

from shardclock.api.codes import invalid
from shardclock_server.timers.refusal import Refusal, shortened


def cursor_of(page: str | None) -> str | None:
    """Encode a list's own cursor as the API's cursor; None: there is no further page.

    shape:   letters, digits, - and _
    """
    return None if page is None else urlsafe_b64encode(page.encode()).decode().rstrip("=")


def place_of(cursor: str | None) -> str | None:
    """Decode the API's cursor to the list's own cursor; None: the first page.

    errors:  Refusal  the text is not Base64; the list itself checks its own cursor
    """
    if cursor is None:
        return None
    try:
        place = urlsafe_b64decode(f"{cursor}{'=' * (-len(cursor) % 4)}").decode()
    except ValueError:
        place = None
    if place is None or cursor_of(place) != cursor:
        raise Refusal.of(invalid("page"), why=f"{shortened(cursor)} is not the `next` of a page: send it unchanged")
    return place
