"""What to do after an attempt, from what the endpoint answered."""

from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import StrEnum
from http import HTTPStatus

REASON_CHARACTERS_MAX = 300
EXCERPT_BYTES_MAX = 600  # of UTF-8: enough for a reason's characters
OWN_PAUSE_S = 5.0  # after this side had no socket or thread: until some are free again
AFTER_S_MAX = 3_600.0  # an endpoint that has recovered should not wait for a mistake in its Retry-After

GONE = 410
BUSY = frozenset({429, 503})  # their Retry-After holds back all deliveries of the endpoint
# They tell of this delivery: the next one may well be accepted. All others tell of the endpoint.
ABOUT_DELIVERY = frozenset({400, 409, 413, 422})


class Fault(StrEnum):
    """Whose fault a failed attempt was: only the endpoint's counts against the endpoint."""

    ENDPOINT = "endpoint"
    DELIVERY = "delivery"
    SENDER = "sender"


@dataclass(frozen=True, slots=True)
class Delivered:
    """The endpoint has accepted it."""

    status: int
    duration_s: float


@dataclass(frozen=True, slots=True)
class Retry:
    """Send it again, as the policy says, but not before `after_s`. If the sender is at fault, it was no attempt.

    `hold_s` is for all deliveries of the endpoint: it asked for a pause, or this side needs one. `forbidden` is for the
    operator's logs and metrics, and not for the tenant: the guard refused the address.
    """

    reason: str
    duration_s: float
    status: int | None = None  # None: no answer came
    after_s: float | None = None
    hold_s: float | None = None
    fault: Fault = Fault.ENDPOINT
    forbidden: bool = False


@dataclass(frozen=True, slots=True)
class Gone:
    """The endpoint wants no more deliveries: disable it."""

    reason: str
    duration_s: float


Answer = Delivered | Retry | Gone


def answer_of(status: int, *, excerpt: bytes, retry_after: str | None, now_s: float, duration_s: float) -> Answer:
    """Decide what an answer means.

    No status ends the delivery for good. Most of 4xx is a mistake on the receiver's side (a wrong secret, a route that
    is not deployed yet), and is mended while the policy's attempts last.

    units:   now_s in seconds since 1970
    source:  Standard Webhooks 1.0, "Delivery success and failure"
    """
    if 200 <= status < 300:
        return Delivered(status, duration_s)
    reason = _reason(status, excerpt)
    if status == GONE:
        return Gone(reason, duration_s)
    after_s = retry_after_s(retry_after, now_s=now_s)
    return Retry(
        reason,
        duration_s,
        status=status,
        after_s=after_s,
        hold_s=after_s if status in BUSY else None,
        fault=Fault.DELIVERY if status in ABOUT_DELIVERY else Fault.ENDPOINT,
    )


def retry_after_s(value: str | None, *, now_s: float) -> float | None:
    """Read a Retry-After header: seconds or an HTTP date; None if it is absent or neither.

    shape:   from 0 to an hour
    """
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        wanted_s = float(text)
    else:
        try:
            moment = parsedate_to_datetime(text)
        except (ValueError, TypeError, IndexError, OverflowError):
            return None
        wanted_s = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now_s
    return min(max(0.0, wanted_s), AFTER_S_MAX)


def one_line(text: str, *, characters_max: int = REASON_CHARACTERS_MAX) -> str:
    """Make a text printable, on one line, and short; a stranger wrote it."""
    shown = "".join(character if character.isprintable() else " " for character in text[: 4 * characters_max])
    line = " ".join(shown.split())
    return line if len(line) <= characters_max else line[: characters_max - 1] + "…"


def _reason(status: int, excerpt: bytes) -> str:
    try:
        named = f"answered {status} {HTTPStatus(status).phrase}"
    except ValueError:
        named = f"answered {status}"
    if 300 <= status < 400:
        # The excerpt is where the redirect leads.
        named = f"{named}, a redirect, which is not followed; the endpoint's URL must be where it leads"
    said = one_line(excerpt[:EXCERPT_BYTES_MAX].decode(errors="replace"))
    return one_line(f"{named}: {said}") if said else named
