"""Calculate the allowed lateness of timers during faults, and the end of each excuse."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from chaos.history import Bounds
from chaos.history.faults import Fault

VICTIM_KINDS = ("kill", "freeze", "cut")


class Window(NamedTuple):
    """Describe the interval in which a fault excuses late timers, by the rig's clock."""

    began_s: float
    until_s: float
    fault: Fault


def windows_of(faults: Iterable[Fault], bounds: Bounds) -> list[Window]:
    """List the window of each fault that disturbs, ordered by start.

    The window of a fault without a promise lasts until the whole cluster must have recovered.
    """
    windows = [Window(fault.began_at, _until_s(fault, bounds), fault) for fault in faults if fault.disturbs]
    return sorted(windows, key=lambda window: window[:2])


def deadline_s(windows: Sequence[Window], ready_s: float, *, allowed_s: float) -> float:
    """Return the latest moment at which a ready timer must fire; fault windows around the timer extend it.

    In several windows, the allowed lateness is the sum, because one machine fires the timers that all these faults
    delayed.

    shape:   `windows` in the order of `windows_of`
    """
    deadline = ready_s + allowed_s
    healed_s, times = -math.inf, 0
    for window in windows:
        if window.began_s > deadline:
            break
        if window.until_s > ready_s:
            healed_s, times = max(healed_s, window.until_s), times + 1
            deadline = max(deadline, healed_s + times * allowed_s)
    return deadline


def fired_by_a_wrong_clock(faults: Iterable[Fault], fired_s: float, bounds: Bounds) -> bool:
    """Return whether only a wrong clock of Postgres explains a moment.

    A fault of kind clock has the offset in its detail: `offset_s`, negative for back.
    """
    for fault in faults:
        offset = fault.detail.get("offset_s", 0.0) if fault.kind == "clock" else None
        if isinstance(offset, int | float):
            shifted_s = fired_s - offset
            if fault.began_at <= shifted_s <= fault.ended_at + bounds.back_within_s:
                return True
    return False


def is_set_by(faults: Iterable[Fault], seconds: float, *, give_or_take_s: float) -> bool:
    """Return whether Postgres's clock was ever set by this amount, by which a firing may seem early or late."""
    offsets = (fault.detail.get("offset_s", 0.0) for fault in faults if fault.kind == "clock")
    return any(isinstance(it, int | float) and abs(abs(it) - seconds) < give_or_take_s for it in offsets)


def set_back_at(faults: Iterable[Fault], at_s: float, *, give_or_take_s: float) -> bool:
    """Return whether Postgres's clock had just been set back at a moment by that clock.

    The clock is set back at the end of an offset ahead, or at the start of an offset back. In the second case the
    moment includes the offset.
    """
    for fault in faults:
        offset = fault.detail.get("offset_s", 0.0) if fault.kind == "clock" else None
        if isinstance(offset, int | float):
            set_back_s = fault.ended_at if offset > 0 else fault.began_at + offset
            if abs(at_s - set_back_s) < give_or_take_s:
                return True
    return False


def has_victims(fault: Fault) -> bool:
    """Return whether a fault stops shards, so that other shards take over during the fault."""
    return fault.kind in VICTIM_KINDS and bool(fault.victims)


def _until_s(fault: Fault, bounds: Bounds) -> float:
    if fault.recovers_within_s is None:
        return fault.ended_at + bounds.back_within_s
    return (fault.began_at if has_victims(fault) else fault.ended_at) + fault.recovers_within_s
