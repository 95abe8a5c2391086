"""An app for tests that move the clock: the app records its calls, and the test sets each outcome."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from threading import current_thread, main_thread
from typing import Any

import shardclock

Told = Callable[[shardclock.Timer[Any]], Awaitable[Any]]


async def nothing(_: shardclock.Timer[Any]) -> None:
    """Do nothing."""


@dataclass
class Book:
    """The recorded calls of the app (payloads, attempts, moments), and its behavior."""

    called: list[tuple[Any, int, datetime]] = field(default_factory=list)
    starts: list[datetime] = field(default_factory=list)
    plain_was_in_main_thread: bool | None = None
    does: Told = nothing
    run_does: Callable[[], Any] = lambda: None


book = Book()


def clear() -> None:
    book.__init__()  # type: ignore[misc]


@shardclock.on_timer("stepped.noted", max_attempts=3, retry_min="PT10S", retry_max="PT10M")
async def note(timer: shardclock.Timer[Any]) -> Any:
    """Record a call, and return or raise the outcome that the test has set."""
    book.called.append((timer.payload, timer.attempt, timer.fired_at))
    return await book.does(timer)


@shardclock.on_timer("stepped.plain", rate_per_s=0.001)
def note_plainly(timer: shardclock.Timer[Any]) -> None:
    """Record the thread in which a plain function runs."""
    book.called.append((timer.payload, timer.attempt, timer.fired_at))
    book.plain_was_in_main_thread = current_thread() is main_thread()


@shardclock.job("stepped.refreshed", every="PT15M", max_runtime="PT1M", max_retries=2, retry_period="PT1M")
def refresh(run: shardclock.Run[Any]) -> Any:
    book.starts.append(run.scheduled_at)
    return book.run_does()
