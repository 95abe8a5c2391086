"""How late a timer may be while things are broken: what each fault excuses, and until when."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from chaos.history import Bounds, Fault

VICTIM_KINDS = ("kill", "freeze", "cut")


class Window(NamedTuple):
    """From when to when a fault excuses timers for being late, by the rig's clock."""

    began_s: float
    until_s: float
    fault: Fault


def windows_of(faults: Iterable[Fault], bounds: Bounds) -> list[Window]:
    """Give each fault that disturbs its window, by beginning; if it promises nothing, until all must be back."""
    windows = [Window(fault.began_at, _until_s(fault, bounds), fault) for fault in faults if fault.disturbs]
    return sorted(windows, key=lambda window: window[:2])


def deadline_s(windows: Sequence[Window], ready_s: float, *, allowed_s: float) -> float:
    """Say when a timer that is ready to fire must have fired: windows that it falls into, or runs into, put it off.

    What is allowed after the end of a window is allowed once for each window that it falls into: what two faults held
    up at the same time is fired by one machine.

    shape:   `windows` as `windows_of` orders them
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
    """Say whether a moment by Postgres's clock lies where only a clock that was set wrong can have shown it.

    A fault of kind clock tells in its detail by how much: `offset_s`, negative for back.
    """
    for fault in faults:
        offset = fault.detail.get("offset_s", 0.0) if fault.kind == "clock" else None
        if isinstance(offset, int | float):
            shifted_s = fired_s - offset
            if fault.began_at <= shifted_s <= fault.ended_at + bounds.back_within_s:
                return True
    return False


def is_set_by(faults: Iterable[Fault], seconds: float, *, give_or_take_s: float) -> bool:
    """Say whether Postgres's clock was ever set by that much, which then looks like haste, or lateness."""
    offsets = (fault.detail.get("offset_s", 0.0) for fault in faults if fault.kind == "clock")
    return any(isinstance(it, int | float) and abs(abs(it) - seconds) < give_or_take_s for it in offsets)


def set_back_at(faults: Iterable[Fault], at_s: float, *, give_or_take_s: float) -> bool:
    """Say whether Postgres's clock had just been set back at a moment that it told.

    Back from being ahead when that fault ended, or behind when that one began: then it tells its offset too.
    """
    for fault in faults:
        offset = fault.detail.get("offset_s", 0.0) if fault.kind == "clock" else None
        if isinstance(offset, int | float):
            set_back_s = fault.ended_at if offset > 0 else fault.began_at + offset
            if abs(at_s - set_back_s) < give_or_take_s:
                return True
    return False


def has_victims(fault: Fault) -> bool:
    """Say whether a fault takes shards away from the others, which then take over while it lasts."""
    return fault.kind in VICTIM_KINDS and bool(fault.victims)


def _until_s(fault: Fault, bounds: Bounds) -> float:
    if fault.recovers_within_s is None:
        return fault.ended_at + bounds.back_within_s
    return (fault.began_at if has_victims(fault) else fault.ended_at) + fault.recovers_within_s
