"""Measure takeovers and recoveries after faults, and the lateness of all timers."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chaos.fault_windows import Window, has_victims, is_set_by, windows_of
from chaos.history import History
from chaos.history.faults import Fault
from chaos.orphaned_slots import SLOTS, promised_of, slots_of
from chaos.run_index import Firing, RunIndex, index_run

# The duration of a lease, a sweep and a margin. A timer that becomes due within this time after the loss of its shard
# counts for the takeover; a later timer counts for the next owner of its slot.
WATCHED_S = 15.0


@dataclass(frozen=True, slots=True)
class Takeover:
    """The highest lateness `seconds` of the timers of a lost shard that were due shortly after the loss.

    `timers` is the number of these timers. `seconds` is None if no timer was due. `bound_s` is the promised lateness,
    or None without a promise.
    """

    fault: Fault
    timers: int
    seconds: float | None
    bound_s: float | None


@dataclass(frozen=True, slots=True)
class Recovery:
    """The time from the end of a fault to the first firing (`first_s`), and to the last late firing (`normal_s`).

    `first_s` is None if nothing fired before the next fault; `normal_s` is 0.0 if no timer was late.
    """

    fault: Fault
    first_s: float | None
    normal_s: float


def takeovers(history: History, *, run: RunIndex | None = None) -> list[Takeover]:
    """Measure the takeover after each fault with victims; ignore timers that another fault may have delayed.

    shape:   `run` is the index of this history, if the caller has built it already
    """
    run = run or index_run(history)
    promised_s = promised_of(run)
    windows = [_until_taken_over(it, promised_s) for it in windows_of(history.faults, history.bounds)]
    lost = {id(fault): slots_of(run, fault) for fault in history.faults if has_victims(fault)}
    firings = sorted(run.firings, key=lambda firing: firing.ready_s)
    found = []
    for fault in history.faults:
        if not (slots := lost.get(id(fault))):
            continue
        begin = bisect_left(firings, fault.began_at, key=lambda firing: firing.ready_s)
        end = bisect_right(firings, fault.began_at + WATCHED_S, key=lambda firing: firing.ready_s)
        others = [window for window in windows if window.fault is not fault and window.until_s >= fault.began_at]
        waits = [
            firing.fired_s - firing.ready_s
            for firing in firings[begin:end]
            if firing.record.timer_key % SLOTS in slots and not _is_held_up(firing, others, lost)
        ]
        waits = [it for it in waits if not is_set_by(history.faults, it, give_or_take_s=history.bounds.back_within_s)]
        found.append(Takeover(fault, len(waits), max(waits, default=None), promised_s[fault.number]))
    return found


def recoveries(history: History, *, run: RunIndex | None = None) -> list[Recovery]:
    """Measure the recovery from each fault of the kinds store and head, up to the next fault.

    Omit faults that end during another fault.

    shape:   as `takeovers`
    """
    run = run or index_run(history)
    firings = sorted(run.firings, key=lambda firing: firing.fired_s)
    disturbing = [fault for fault in history.faults if fault.disturbs]
    found = []
    for fault in history.faults:
        if fault.kind not in ("store", "head") or any(it.began_at <= fault.ended_at < it.ended_at for it in disturbing):
            continue
        until = min((it.began_at for it in disturbing if it.began_at > fault.ended_at), default=math.inf)
        begin = bisect_left(firings, fault.ended_at, key=lambda firing: firing.fired_s)
        end = bisect_left(firings, until, key=lambda firing: firing.fired_s)
        late = [it for it in firings[begin:end] if it.fired_s - it.ready_s > history.bounds.normal_s]
        first_s = firings[begin].fired_s - fault.ended_at if begin < end else None
        found.append(Recovery(fault, first_s, late[-1].fired_s - fault.ended_at if late else 0.0))
    return found


def lags(history: History, *, run: RunIndex | None = None) -> list[tuple[float, float]]:
    """List the time and the lateness of each firing; the firings are in commit order.

    The time is in seconds since 1970 by Postgres's clock.

    shape:   if a timer was already due when it was created or moved, lateness counts from the commit that created or
             moved it
    """
    return [(it.fired_s, it.fired_s - it.ready_s) for it in (run or index_run(history)).firings]


def quantile(values: Sequence[float], q: float) -> float:
    """Return the value at a quantile, by nearest rank; `values` need not be sorted, and must not be empty."""
    return sorted(values)[max(0, math.ceil(len(values) * q) - 1)]


def _until_taken_over(window: Window, promised_s: Mapping[int, float | None]) -> Window:
    """Extend the window of a fault by the promised time of a takeover."""
    within_s = promised_s[window.fault.number] if has_victims(window.fault) else None
    return window if within_s is None else window._replace(until_s=window.fault.began_at + within_s)


def _is_held_up(firing: Firing, others: Sequence[Window], lost: dict[int, frozenset[int]]) -> bool:
    """Return whether another fault may have delayed a timer: a fault of the timer's shard or of the whole cluster.

    shape:   `others` ordered by their start
    """
    slot = firing.record.timer_key % SLOTS
    return any(
        window.until_s >= firing.ready_s and slot in lost.get(id(window.fault), (slot,))
        for window in itertools.takewhile(lambda window: window.began_s <= firing.fired_s, others)
    )
