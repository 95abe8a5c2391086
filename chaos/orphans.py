"""Which slots nobody kept after a shard was lost, and until when: their timers go a longer way, if within a bound."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from chaos.history import Fault
from chaos.lives import Firing, Presence, Run
from chaos.windows import has_victims

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
    moves, promised_s = _moves(run), promised_of(run)
    for fault in run.history.faults:
        if has_victims(fault) and (late_s := promised_s[fault.number]) is not None:
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


def promised_of(run: Run) -> dict[int, float | None]:
    """Say for each fault, by number, within how many seconds what it took away must be another's.

    That is longer where nobody led who could see to it, or no shard was left to give it to: new ones must start. What
    is lost while another shard is broken still (and for as long as its takeover may take) has the time of both.
    """
    history = run.history
    alone = _deserted(_moves(run))
    alone += [(it.began_at, it.ended_at + LED_AGAIN_S) for it in history.faults if it.leaderless]
    promised: dict[int, float | None] = {}
    for fault in history.faults:
        within_s = promised[fault.number] = fault.recovers_within_s
        if within_s is not None and any(
            began_s <= fault.began_at + within_s and fault.began_at <= ended_s for began_s, ended_s in alone
        ):
            promised[fault.number] = max(within_s, history.bounds.alone_s)
        elif within_s is not None:
            promised[fault.number] = within_s + sum(_is_broken_still(history.faults, fault))
    return promised


def slots_of(run: Run, fault: Fault) -> frozenset[int]:
    """Find the slots that a fault's victims kept when it began."""
    slots: set[int] = set()
    for holder in fault.victims:
        told = [it for it in run.holders.get(holder, ()) if it.committed_s <= fault.began_at]
        slots |= _slots_in(told[-1]) if told else frozenset()
    return frozenset(slots)


def _is_broken_still(faults: Iterable[Fault], fault: Fault) -> Iterator[float]:
    """List within how long each other shard must be taken over that is lost when a fault begins."""
    for other in faults:
        within_s = other.recovers_within_s
        if (
            other is not fault
            and has_victims(other)
            and within_s is not None
            and other.began_at <= fault.began_at < max(other.ended_at, other.began_at + within_s)
        ):
            yield within_s


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


def _deserted(moves: Iterable[Move]) -> list[tuple[float, float]]:
    """Find from when to when nobody kept any slot, once somebody had."""
    spans: list[tuple[float, float]] = []
    since_s: float | None = None
    kept: set[int] = set()
    for move in moves:
        (kept.add if move.slots else kept.discard)(move.holder)
        if kept and since_s is not None:
            spans.append((since_s, move.committed_s))
            since_s = None
        elif not kept and since_s is None:
            since_s = move.committed_s
    return spans if since_s is None else [*spans, (since_s, math.inf)]


def _slots_in(presence: Presence) -> frozenset[int]:
    row = presence.row
    if row.part is None or row.part_count is None or row.ended_at is not None or row.suspended_at is not None:
        return frozenset()
    return frozenset(range(row.part, SLOTS, row.part_count))
