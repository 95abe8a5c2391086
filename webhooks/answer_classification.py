"""Classify an endpoint's answer: the delivery succeeded, is retried, or the endpoint is gone.

workers/webhook.py and workers/attempts.py decide whether a failed delivery is retried or becomes a dead letter.
"""

from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import StrEnum
from http import HTTPStatus

REASON_CHARS_MAX = 300
EXCERPT_BYTES_MAX = 600  # UTF-8: enough bytes for REASON_CHARS_MAX characters.
STORED_BYTES_MAX = 2_048  # The database stores at most this many bytes of an answer's body.
OWN_PAUSE_S = 5.0  # The sender's pause after it has run out of sockets or threads.
# A longer Retry-After is reduced to this time, so that a recovered endpoint soon gets its deliveries.
AFTER_S_MAX = 3_600.0

GONE = 410
BUSY = frozenset({429, 503})  # The Retry-After of these statuses delays all deliveries of the endpoint.
# Statuses that concern one delivery; all other failures concern the endpoint.
ABOUT_DELIVERY = frozenset({400, 409, 413, 422})


class FaultSide(StrEnum):
    """The cause of a failed attempt; only the value ENDPOINT counts as a failure for the endpoint's breaker."""

    ENDPOINT = "endpoint"
    DELIVERY = "delivery"
    SENDER = "sender"


@dataclass(frozen=True, slots=True)
class Delivered:
    """The endpoint has accepted the delivery."""

    status: int
    duration_s: float
    body: bytes = field(default=b"", compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RetryDelivery:
    """Retry the delivery after the policy's delay, but not before `after_s` has passed.

    `hold_s` is a pause for all deliveries of the endpoint: the endpoint requested the pause, or the sender needs it.
    With the fault SENDER, the attempt does not count as one of the policy's attempts. `forbidden`: the guard refused
    the address. Only the operator's logs and metrics show this flag; the tenant can't see it.
    """

    reason: str
    duration_s: float
    status: int | None = None  # None: no answer came
    after_s: float | None = None
    hold_s: float | None = None
    fault: FaultSide = FaultSide.ENDPOINT
    forbidden: bool = False
    body: bytes = field(default=b"", compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class EndpointGone:
    """The endpoint wants no more deliveries, and must be disabled."""

    reason: str
    duration_s: float
    body: bytes = field(default=b"", compare=False, repr=False)


Answer = Delivered | RetryDelivery | EndpointGone


def answer_of(status: int, *, excerpt: bytes, retry_after: str | None, now_s: float, duration_s: float) -> Answer:
    """Classify an endpoint's answer.

    Only 410 Gone ends the delivery, because the endpoint wants no more deliveries. Most other 4xx statuses are mistakes
    of the receiver, such as a wrong secret or a route that is not deployed yet. The receiver can repair such mistakes
    while the policy still has attempts.

    units:   now_s in seconds since 1970
    source:  Standard Webhooks 1.0, "Delivery success and failure"
    """
    if 200 <= status < 300:
        return Delivered(status, duration_s)
    reason = _reason(status, excerpt)
    if status == GONE:
        return EndpointGone(reason, duration_s)
    after_s = retry_after_s(retry_after, now_s=now_s)
    return RetryDelivery(
        reason,
        duration_s,
        status=status,
        after_s=after_s,
        hold_s=after_s if status in BUSY else None,
        fault=FaultSide.DELIVERY if status in ABOUT_DELIVERY else FaultSide.ENDPOINT,
    )


def retry_after_s(value: str | None, *, now_s: float) -> float | None:
    """Read a Retry-After header: seconds or an HTTP date; None if the header is absent or invalid.

    shape:   seconds, from 0 to 3,600
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


def one_line(text: str) -> str:
    """Convert an untrusted text to one short, printable line."""
    shown = "".join(character if character.isprintable() else " " for character in text[: 4 * REASON_CHARS_MAX])
    line = " ".join(shown.split())
    return line if len(line) <= REASON_CHARS_MAX else line[: REASON_CHARS_MAX - 1] + "…"


def _reason(status: int, excerpt: bytes) -> str:
    try:
        named = f"answered {status} {HTTPStatus(status).phrase}"
    except ValueError:
        named = f"answered {status}"
    if 300 <= status < 400:
        # For a redirect the excerpt is the redirect's target.
        named = f"{named}, a redirect, which is not followed; set the endpoint's URL to the target"
    text = one_line(excerpt[:EXCERPT_BYTES_MAX].decode(errors="replace"))
    return one_line(f"{named}: {text}") if text else named
