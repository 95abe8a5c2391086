"""Cut long texts for a page, and read the stored attempts of a delivery."""

import json
from dataclasses import dataclass
from datetime import datetime

EXCERPT_CHARS = 8_000
REASON_CHARS = 300
REASON_LINKED_CHARS = 1_000  # A longer reason would make a URL that some proxies refuse.
ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A part of a text; `left_out` counts the other characters."""

    text: str
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """A failed attempt of a delivery."""

    number: int | None
    at: datetime | None
    reason: str
    worker: str | None


def head_of(text: str | None, chars: int = EXCERPT_CHARS) -> Excerpt | None:
    """Return the beginning of a text; None: there is no text."""
    return None if text is None else Excerpt(text[:chars], max(0, len(text) - chars))


def tail_of(text: str | None, chars: int = EXCERPT_CHARS) -> Excerpt | None:
    """Return the end of a text; None: there is no text."""
    return None if text is None else Excerpt(text[-chars:], max(0, len(text) - chars))


def json_of(text: str | None) -> Excerpt | None:
    """Return the beginning of a JSON text, with one member per line; a long text stays in one line."""
    if text is None or len(text) > EXCERPT_CHARS:
        return head_of(text)
    return head_of(json.dumps(json.loads(text), indent=2, ensure_ascii=False))


def first_line(text: str | None, chars: int = REASON_CHARS) -> str:
    """Return the first line of a text, cut to `chars` characters."""
    line = next(iter((text or "").splitlines()), "")
    return line if len(line) <= chars else f"{line[: chars - 1]}…"


def attempts_of(failures: str | None) -> list[FailedAttempt]:
    """Read the last failed attempts of a delivery, the newest first."""
    stored = json.loads(failures or "[]")[-ATTEMPTS:]
    return [_attempt(it) for it in reversed(stored)]


def _attempt(stored: dict[str, object]) -> FailedAttempt:
    at, number, worker = stored.get("at"), stored.get("attempt"), stored.get("worker")
    return FailedAttempt(
        number if isinstance(number, int) else None,
        datetime.fromisoformat(at) if isinstance(at, str) else None,
        str(stored.get("reason", "")),
        None if worker is None else str(worker),
    )
