"""Check pauses until a given time: a paused timer does not fire before this time, and continues after this time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from chaos.fault_windows import deadline_s, windows_of
from chaos.history.changes import Recorded
from chaos.promises.wording import clock, record_of
from chaos.run_index import RunIndex, TimerHistory

SEARCH_S = 1.0  # A shard polls for ended pauses once a second, and at each planned end that it knows.


class Pause(NamedTuple):
    """A pause with an end: its last PAUSED record, and the record that ended the pause, or None."""

    begun: Recorded
    until: datetime
    committed_s: float
    ended: Recorded | None = None
    ended_s: float = 0.0


def ended_early(run: RunIndex) -> Iterator[str | None]:
    """Check that no timer was resumed, and none fired, before the end of its pause by Postgres's clock."""
    for pause in _pauses(run) if run.clock_is_true else ():
        by = pause.ended
        is_early = by is not None and by.intent in ("RESUMED", "TRIGGERED") and by.recorded_at < pause.until
        is_fired = by is not None and by.intent == "TRIGGERED"
        told = f"{record_of(by)}: the timer was paused until {clock(pause.until)}" if by is not None else ""
        yield told if is_early or is_fired else None


def ended_late(run: RunIndex) -> Iterator[str | None]:
    """Check that each pause ended soon after its planned end.

    A fault excuses a late end in the same way as a late timer.
    """
    history = run.history
    windows = windows_of(history.faults, history.bounds)
    for pause in _pauses(run) if run.clock_is_true else ():
        from_s = max(pause.until.timestamp(), pause.committed_s)
        deadline = deadline_s(windows, from_s, allowed_s=history.bounds.normal_s + SEARCH_S)
        ended_s = history.ended_at if pause.ended is None else pause.ended_s
        told = "and is still paused" if pause.ended is None else f"and stayed paused until {clock(ended_s)}"
        yield (
            f"{record_of(pause.begun)}: the timer was paused until {clock(pause.until)}, {told}"
            if ended_s > deadline
            else None
        )


def _pauses(run: RunIndex) -> Iterator[Pause]:
    for timer in run.timers.values():
        yield from _pauses_of(run, timer)


def _pauses_of(run: RunIndex, timer: TimerHistory) -> Iterator[Pause]:
    pause: Pause | None = None
    for number, change in timer.steps:
        if not isinstance(change, Recorded):
            continue
        if change.intent == "PAUSED":
            until = json.loads(change.detail or "{}").get("until")
            pause = Pause(change, datetime.fromisoformat(until), run.committed_s[number]) if until else None
        elif pause is not None and change.intent in ("RESUMED", "TRIGGERED", "CANCELED", "SKIPPED"):
            yield pause._replace(ended=change, ended_s=run.committed_s[number])
            pause = None
    if pause is not None:
        yield pause
