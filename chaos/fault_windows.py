"""Calculate the allowed lateness of timers during and after faults."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from chaos.history import Bounds
from chaos.history.faults import Fault

VICTIM_KINDS = ("kill", "freeze", "cut")


class Window(NamedTuple):
    """The interval in which a fault excuses late timers, in times of the rig's clock."""

    began_s: float
    until_s: float
    fault: Fault


def windows_of(faults: Iterable[Fault], bounds: Bounds) -> list[Window]:
    """List the windows of all faults that have `disturbs` set, ordered by start.

    If the product promises no recovery from a fault, the fault's window lasts until the promised recovery of the whole
    cluster.
    """
    windows = [Window(fault.began_at, _until_s(fault, bounds), fault) for fault in faults if fault.disturbs]
    return sorted(windows, key=lambda window: window[:2])


def deadline_s(windows: Sequence[Window], ready_s: float, *, allowed_s: float) -> float:
    """Return the latest allowed moment for the firing of a ready timer.

    If fault windows overlap, the allowed lateness is their sum, because one machine must fire the timers that all these
    faults have delayed.

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
    """Return whether a timer fired at a moment that only a wrong clock of Postgres explains.

    The detail of a clock fault has the offset in `offset_s`, which is negative if the clock was set back.
    """
    for fault in faults:
        offset = fault.detail.get("offset_s", 0.0) if fault.kind == "clock" else None
        if isinstance(offset, int | float):
            shifted_s = fired_s - offset
            if fault.began_at <= shifted_s <= fault.ended_at + bounds.back_within_s:
                return True
    return False


def is_set_by(faults: Iterable[Fault], seconds: float, *, give_or_take_s: float) -> bool:
    """Return whether a fault moved Postgres's clock by about `seconds`, ahead or back.

    This fault would explain a firing that is early or late by `seconds`.
    """
    offsets = (fault.detail.get("offset_s", 0.0) for fault in faults if fault.kind == "clock")
    return any(isinstance(it, int | float) and abs(abs(it) - seconds) < give_or_take_s for it in offsets)


def set_back_at(faults: Iterable[Fault], at_s: float, *, give_or_take_s: float) -> bool:
    """Return whether Postgres's clock was set back at about the moment `at_s`, as read from Postgres's clock.

    A fault that sets the clock ahead sets it back at the end of the fault. A fault that sets the clock back does so at
    its start; then `at_s` already includes the offset.
    """
    for fault in faults:
        offset = fault.detail.get("offset_s", 0.0) if fault.kind == "clock" else None
        if isinstance(offset, int | float):
            set_back_s = fault.ended_at if offset > 0 else fault.began_at + offset
            if abs(at_s - set_back_s) < give_or_take_s:
                return True
    return False


def has_victims(fault: Fault) -> bool:
    """Return whether a fault stops shards, so that other shards must take over."""
    return fault.kind in VICTIM_KINDS and bool(fault.victims)


def _until_s(fault: Fault, bounds: Bounds) -> float:
    if fault.recovers_within_s is None:
        return fault.ended_at + bounds.back_within_s
    return (fault.began_at if has_victims(fault) else fault.ended_at) + fault.recovers_within_s
