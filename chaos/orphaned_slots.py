"""Find the slots that had no shard after the loss of a shard.

The timers in these orphaned slots may be late by the time of a takeover.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from chaos.fault_windows import has_victims
from chaos.history.faults import Fault
from chaos.run_index import Firing, HolderState, RunIndex

SLOTS = 840


class OrphanedSlots(NamedTuple):
    """Slots that lost their shard at `began_s`, and got another shard at `until_s`.

    `late_s` is the promised lateness of the timers in the orphaned slots.
    """

    slots: frozenset[int]
    began_s: float
    until_s: float
    late_s: float


class SlotChange(NamedTuple):
    """A commit that changed the slots of a holder."""

    committed_s: float
    holder: int
    slots: frozenset[int]


def orphaned_slots_of(run: RunIndex) -> list[OrphanedSlots]:
    """Find the orphaned slots of each fault that stopped shards and has a promised lateness."""
    found = []
    changes, promised_s = _slot_changes(run), promised_of(run)
    for fault in run.history.faults:
        if has_victims(fault) and (late_s := promised_s[fault.number]) is not None:
            slots = slots_of(run, fault)
            until_s = _kept_again_s(changes, fault, slots, at_the_latest_s=run.history.ended_at)
            found.append(OrphanedSlots(slots, fault.began_at, until_s, late_s))
    return found


def waits_for_takeover(orphaned: Iterable[OrphanedSlots], firing: Firing, *, allowed_s: float) -> bool:
    """Return whether a ready timer had an orphaned slot, and fired within the promised time of a takeover."""
    slot = firing.record.timer_key % SLOTS
    late_s = firing.fired_s - firing.ready_s
    return any(
        slot in it.slots
        and it.began_s <= firing.ready_s + allowed_s
        and firing.ready_s <= it.until_s
        and late_s <= it.late_s + allowed_s
        for it in orphaned
    )


def promised_of(run: RunIndex) -> dict[int, float | None]:
    """Map the number of each fault to the promised time until other keepers have the lost slots.

    The time is longer if no coordinator led, or if no shard was left and new shards had to start. If a shard is lost
    before the takeover of another lost shard is complete, the two times are added.
    """
    history = run.history
    alone = _deserted(_slot_changes(run))
    alone += [(it.began_at, _led_again_s(run, it)) for it in history.faults if it.leaderless]
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


def _led_again_s(run: RunIndex, fault: Fault) -> float:
    """Return the moment at which a coordinator leads again, after the loss of a leader.

    A killed leader is ignored, although its last statement may be committed after the kill.
    """
    last = next((it.leader for it in reversed(run.leads) if it.committed_s <= fault.began_at), None)
    dead = None if fault.kind in ("freeze", "cut") else last
    leading = (it.committed_s for it in run.leads if it.leader not in (None, dead))
    return next((at_s for at_s in leading if at_s > fault.ended_at), run.history.ended_at)


def slots_of(run: RunIndex, fault: Fault) -> frozenset[int]:
    """Return the slots that a fault's victims had at the start of the fault."""
    slots: set[int] = set()
    for holder in fault.victims:
        states = [it for it in run.holders.get(holder, ()) if it.committed_s <= fault.began_at]
        slots |= _slots_in(states[-1]) if states else frozenset()
    return frozenset(slots)


def served_again_at(run: RunIndex, fault: Fault) -> float:
    """Return the moment at which as many shards had slots as before the loss of a head.

    The lost shards don't count. The result is the time of the first commit with enough shards. Without this commit, the
    result is the end of the fault, when the rig had found the new shards.
    """
    lost, served = fault.detail.get("lost"), fault.detail.get("served")
    if not isinstance(lost, Sequence) or not isinstance(served, int):
        return fault.ended_at
    serving: set[int] = set()
    for change in _slot_changes(run):
        (serving.add if change.slots else serving.discard)(change.holder)
        is_whole = len(serving) >= served and serving.isdisjoint(lost)
        if is_whole and fault.began_at <= change.committed_s <= fault.ended_at:
            return change.committed_s
    return fault.ended_at


def _is_broken_still(faults: Iterable[Fault], fault: Fault) -> Iterator[float]:
    """Yield the promised takeover time of each other shard that is already lost when a fault begins."""
    for other in faults:
        within_s = other.recovers_within_s
        if (
            other is not fault
            and has_victims(other)
            and within_s is not None
            and other.began_at <= fault.began_at < max(other.ended_at, other.began_at + within_s)
        ):
            yield within_s


def _kept_again_s(
    changes: Iterable[SlotChange], fault: Fault, slots: frozenset[int], *, at_the_latest_s: float
) -> float:
    """Return the moment at which other holders had all the lost slots, or at which the lost shard could continue.

    The earlier of both moments counts.
    """
    latest = at_the_latest_s if fault.kind == "kill" else fault.ended_at
    kept: dict[int, frozenset[int]] = {}
    for change in changes:
        if change.holder in fault.victims:
            continue
        kept[change.holder] = change.slots
        if change.committed_s >= fault.began_at and slots <= frozenset().union(*kept.values()):
            return min(latest, change.committed_s)
    return latest


def _slot_changes(run: RunIndex) -> list[SlotChange]:
    """List the changes of holders' slots, in commit order."""
    kept: dict[int, frozenset[int]] = {}
    changes = []
    for state in sorted((it for states in run.holders.values() for it in states), key=lambda it: it.number):
        holder, slots = state.row.holder, _slots_in(state)
        if kept.get(holder, frozenset()) != slots:
            kept[holder] = slots
            changes.append(SlotChange(state.committed_s, holder, slots))
    return changes


def _deserted(changes: Iterable[SlotChange]) -> list[tuple[float, float]]:
    """Return the intervals in which no holder had a slot, after the first holder got slots."""
    spans: list[tuple[float, float]] = []
    since_s: float | None = None
    kept: set[int] = set()
    for change in changes:
        (kept.add if change.slots else kept.discard)(change.holder)
        if kept and since_s is not None:
            spans.append((since_s, change.committed_s))
            since_s = None
        elif not kept and since_s is None:
            since_s = change.committed_s
    return spans if since_s is None else [*spans, (since_s, math.inf)]


def _slots_in(state: HolderState) -> frozenset[int]:
    row = state.row
    if row.part is None or row.part_count is None or row.ended_at is not None or row.suspended_at is not None:
        return frozenset()
    return frozenset(range(row.part, SLOTS, row.part_count))
