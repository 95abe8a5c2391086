"""Check L1, L3, L6, T1 and T2: faults explain all lateness, and each due timer fires."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chaos.fault_windows import Window, deadline_s, fired_by_a_wrong_clock, is_set_by, windows_of
from chaos.history.faults import Fault
from chaos.orphaned_slots import OrphanedSlots, orphaned_slots_of, served_again_at, waits_for_takeover
from chaos.promises.pauses import ended_late
from chaos.promises.wording import clock, record_of, row_of
from chaos.run_index import RunIndex
from chaos.takeover import takeovers

FLOOD_TAIL_S = 5.0
UP_KILLED = "kill up"  # The name of the fault in `fault_options`.


def bounded_lag(run: RunIndex) -> Iterator[str | None]:
    """Compare the lateness of each timer with the normal lag, and with the windows of faults.

    Lateness counts from the due date, or from the commit that made the timer due if this commit is later. A timer that
    waits during a window may wait until the end of the window, and additionally for the normal lag. Timers in the slots
    of a lost shard may be as late as the duration of a takeover.
    """
    history, orphaned = run.history, orphaned_slots_of(run)
    windows = windows_of(history.faults, history.bounds)
    for firing in run.firings:
        if firing.record.timer_key in run.poisoned:
            continue
        late_s = firing.fired_s - firing.ready_s
        if late_s <= history.bounds.normal_s:
            yield None
            continue
        deadline = deadline_s(windows, firing.ready_s, allowed_s=history.bounds.normal_s)
        excused = (
            firing.fired_s <= deadline
            or waits_for_takeover(orphaned, firing, allowed_s=history.bounds.normal_s)
            or fired_by_a_wrong_clock(history.faults, firing.fired_s, history.bounds)
            or is_set_by(history.faults, late_s, give_or_take_s=history.bounds.back_within_s)
        )
        yield (
            None
            if excused
            else f"{record_of(firing.record)}: the timer fired {late_s:.3f} s late, which is"
            f" {firing.fired_s - deadline:.3f} s too late"
        )


def drained(run: RunIndex) -> Iterator[str | None]:
    """Check that the table contains no timer that should have fired; each firing counts as a case, too.

    No timer stays paused after the end of its pause.
    """
    history = run.history
    yield from ended_late(run)
    windows = windows_of(history.faults, history.bounds)
    yield from (None for _ in run.firings)
    for pending in history.pending:
        if pending.paused or pending.timer_key in run.poisoned or pending.due_date.timestamp() > history.ended_at:
            continue
        timer = run.timers.get(pending.timer_key)
        known_s = run.committed_s[timer.ready] if timer else 0.0
        deadline = deadline_s(windows, max(pending.due_date.timestamp(), known_s), allowed_s=history.bounds.normal_s)
        told = row_of(timer.row) if timer and timer.row else f"timer {pending.timer_key}"
        left = f"{told}: the timer was due {clock(pending.due_date)}, and had not fired by {clock(history.ended_at)}"
        yield left if deadline < history.ended_at else None


def floods_apart(run: RunIndex) -> Iterator[str | None]:
    """Compare the lateness of other tenants' timers during the flood of one tenant with a separate limit."""
    history, orphaned = run.history, orphaned_slots_of(run)
    windows = windows_of(history.faults, history.bounds)
    for flood in (fault for fault in history.faults if fault.kind == "load" and "tenant" in fault.detail):
        others = [window for window in windows if window.fault is not flood]
        yield from _late_in(run, flood, others, orphaned)


def taken_over(run: RunIndex) -> Iterator[str | None]:
    """Compare each takeover with its promised time; one takeover in a hundred may take longer."""
    measured = [it for it in takeovers(run.history, run=run) if it.seconds is not None and it.bound_s is not None]
    slow = [it for it in measured if (it.seconds or 0.0) > (it.bound_s or 0.0)]
    yield from (None for _ in range(len(measured) - len(slow)))
    for it in slow:
        told = (
            f"{it.fault.name} at {clock(it.fault.began_at)}: the takeover took {it.seconds:.3f} s; the promise"
            f" is {it.bound_s} s"
        )
        yield told if len(slow) > len(measured) // 100 else None


def serve_again(run: RunIndex) -> Iterator[str | None]:
    """Check the time until as many shards as before the loss of a head had slots.

    If the fault names the lost shards, the time ends with the commit of the last slots. On a busy machine, the rig
    finds the new shards only later. If another fault prevents new shards, the time counts from the end of that fault:
    while `up` is down, no process starts new shards, and while Postgres is down, locked or without a free connection,
    no shard can register.
    """
    for fault in (fault for fault in run.history.faults if fault.kind == "head"):
        started_s = max((it.ended_at for it in run.history.faults if _delays(it, fault)), default=fault.began_at)
        took_s = served_again_at(run, fault) - started_s
        late = (
            f"{fault.name} at {clock(fault.began_at)}: all shards served again after {took_s:.1f} s; the promise is"
            f" {fault.whole_within_s} s"
        )
        yield late if took_s > fault.whole_within_s or not fault.detail.get("whole", True) else None


def _delays(other: Fault, fault: Fault) -> bool:
    """Return whether another fault prevented the start of new shards, and ended while the head was lost."""
    keeps = other.name == UP_KILLED or (other.kind in ("store", "lock") and other.disturbs)
    return keeps and fault.began_at < other.ended_at < fault.ended_at


def _late_in(
    run: RunIndex, flood: Fault, others: Sequence[Window], orphaned: Sequence[OrphanedSlots]
) -> Iterator[str | None]:
    end, allowed_s = flood.ended_at + FLOOD_TAIL_S, run.history.bounds.flooded_s
    for firing in run.firings:
        record = firing.record
        if record.tenant_id == flood.detail["tenant"] or not flood.began_at <= record.due_date.timestamp() <= end:
            continue
        late_s = firing.fired_s - firing.ready_s
        if late_s <= allowed_s:
            yield None
            continue
        in_time = firing.fired_s <= deadline_s(others, firing.ready_s, allowed_s=allowed_s)
        excused = in_time or waits_for_takeover(orphaned, firing, allowed_s=allowed_s)
        yield None if excused else f"{record_of(record)}: the timer fired {late_s:.3f} s late during a flood"
