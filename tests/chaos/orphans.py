"""Which slots nobody kept after a shard was lost, and until when: their timers go a longer way, if within a bound."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tests.chaos.history import Fault, History
from tests.chaos.lives import Firing, Presence, Run
from tests.chaos.windows import has_victims

SLOTS = 840
LED_AGAIN_S = 2.0  # after the end of a coordinator, or of its freeze


class Orphans(NamedTuple):
    """Slots whose shard was lost at `began_s` and that were kept again from `until_s` on; `late_s` is promised."""

    slots: frozenset[int]
    began_s: float
    until_s: float
    late_s: float


class Move(NamedTuple):
    """A holder keeps these slots from a commit on, and kept others before."""

    committed_s: float
    holder: int
    slots: frozenset[int]


def orphans_of(run: Run) -> list[Orphans]:
    """Find them for each fault that took shards away and promises how late their timers may be."""
    found = []
    moves = _moves(run)
    for fault in run.history.faults:
        if has_victims(fault) and (late_s := promised_s(run.history, fault)) is not None:
            slots = slots_of(run, fault)
            until_s = _kept_again_s(moves, fault, slots, at_the_latest_s=run.history.ended_at)
            found.append(Orphans(slots, fault.began_at, until_s, late_s))
    return found


def waits_for_takeover(orphans: Iterable[Orphans], firing: Firing, *, allowed_s: float) -> bool:
    """Say whether a timer lay in orphaned slots when it was ready, and fired as soon as is promised for those."""
    slot = firing.record.timer_key % SLOTS
    late_s = firing.fired_s - firing.ready_s
    return any(
        slot in it.slots
        and it.began_s <= firing.ready_s + allowed_s
        and firing.ready_s <= it.until_s
        and late_s <= it.late_s + allowed_s
        for it in orphans
    )


def promised_s(history: History, fault: Fault) -> float | None:
    """Say within how many seconds a lost shard's slots must be another's; more where nobody led who could see to it."""
    within_s = fault.recovers_within_s
    if within_s is None or not any(
        it.began_at <= fault.began_at + within_s and fault.began_at <= it.ended_at + LED_AGAIN_S
        for it in history.faults
        if it.leaderless
    ):
        return within_s
    return max(within_s, history.bounds.alone_s)


def slots_of(run: Run, fault: Fault) -> frozenset[int]:
    """Find the slots that a fault's victims kept when it began."""
    slots: set[int] = set()
    for holder in fault.victims:
        told = [it for it in run.holders.get(holder, ()) if it.committed_s <= fault.began_at]
        slots |= _slots_in(told[-1]) if told else frozenset()
    return frozenset(slots)


def _kept_again_s(moves: Iterable[Move], fault: Fault, slots: frozenset[int], *, at_the_latest_s: float) -> float:
    """Find when all of them were others' again; or when their shard was let go on, if that came first."""
    latest = at_the_latest_s if fault.kind == "kill" else fault.ended_at
    kept: dict[int, frozenset[int]] = {}
    for move in moves:
        if move.holder in fault.victims:
            continue
        kept[move.holder] = move.slots
        if move.committed_s >= fault.began_at and slots <= frozenset().union(*kept.values()):
            return min(latest, move.committed_s)
    return latest


def _moves(run: Run) -> list[Move]:
    """List when holders came to keep other slots than before, in commit order."""
    kept: dict[int, frozenset[int]] = {}
    moves = []
    for presence in sorted((it for told in run.holders.values() for it in told), key=lambda it: it.number):
        holder, slots = presence.row.holder, _slots_in(presence)
        if kept.get(holder, frozenset()) != slots:
            kept[holder] = slots
            moves.append(Move(presence.committed_s, holder, slots))
    return moves


def _slots_in(presence: Presence) -> frozenset[int]:
    row = presence.row
    if row.shard is None or row.shard_count is None or row.ended_at is not None or row.suspended_at is not None:
        return frozenset()
    return frozenset(range(row.shard, SLOTS, row.shard_count))
