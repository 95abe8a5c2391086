"""L1, L3, L6, T1 and T2: nothing is late for longer than what was broken explains, and nothing stays behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chaos.history import Fault
from chaos.lives import Run
from chaos.orphans import Orphans, orphans_of, waits_for_takeover
from chaos.promises.wording import clock, record_of, row_of
from chaos.takeover import takeovers
from chaos.windows import Window, deadline_s, fired_by_a_wrong_clock, is_set_by, windows_of

FLOOD_TAIL_S = 5.0
WHOLE_S = 90.0
FLOODED_S = 2.0  # how late another tenant's timers may be in a flood


def bounded_lag(run: Run) -> Iterator[str | None]:
    """Hold how late each timer fired against what is normal, and against the windows of faults that it fell into.

    Late is counted from the due date, or from the commit that made the timer due if that came later. Within a window a
    timer may wait until the window's end, and then as long as is normal. While nobody keeps a lost shard's slots, each
    of their timers may be as late as a takeover.
    """
    history, orphans = run.history, orphans_of(run)
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
            or waits_for_takeover(orphans, firing, allowed_s=history.bounds.normal_s)
            or fired_by_a_wrong_clock(history.faults, firing.fired_s, history.bounds)
            or is_set_by(history.faults, late_s, give_or_take_s=history.bounds.back_within_s)
        )
        yield (
            None
            if excused
            else f"{record_of(firing.record)}: {late_s:.3f} s late, {firing.fired_s - deadline:.3f} too much"
        )


def drained(run: Run) -> Iterator[str | None]:
    """Look for timers that are left in the table, and should have fired by the end; what fired is a case too."""
    history = run.history
    windows = windows_of(history.faults, history.bounds)
    yield from (None for _ in run.firings)
    for pending in history.pending:
        if pending.paused or pending.timer_key in run.poisoned or pending.due_date.timestamp() > history.ended_at:
            continue
        life = run.lives.get(pending.timer_key)
        known_s = run.committed_s[life.ready] if life else 0.0
        deadline = deadline_s(windows, max(pending.due_date.timestamp(), known_s), allowed_s=history.bounds.normal_s)
        told = row_of(life.row) if life and life.row else f"timer {pending.timer_key}"
        left = f"{told}: due {clock(pending.due_date)}, not fired by {clock(history.ended_at)}"
        yield left if deadline < history.ended_at else None


def unflooded(run: Run) -> Iterator[str | None]:
    """Hold the timers of other tenants that fall due in a tenant's flood against a bound of their own."""
    history, orphans = run.history, orphans_of(run)
    windows = windows_of(history.faults, history.bounds)
    for flood in (fault for fault in history.faults if fault.kind == "load" and "tenant" in fault.detail):
        others = [window for window in windows if window.fault is not flood]
        yield from _late_in(run, flood, others, orphans)


def taken_over(run: Run) -> Iterator[str | None]:
    """Hold each takeover against what was promised for it; one in a hundred may take longer."""
    measured = [it for it in takeovers(run.history, run=run) if it.seconds is not None and it.bound_s is not None]
    slow = [it for it in measured if (it.seconds or 0.0) > (it.bound_s or 0.0)]
    yield from (None for _ in range(len(measured) - len(slow)))
    for it in slow:
        told = (
            f"{it.fault.name} at {clock(it.fault.began_at)}: taken over in {it.seconds:.3f} s, promised {it.bound_s} s"
        )
        yield told if len(slow) > len(measured) // 100 else None


def whole_again(run: Run) -> Iterator[str | None]:
    """Hold how long it took until as many shards served as before a head was lost."""
    for fault in run.history.faults:
        if fault.kind == "head":
            took_s = fault.ended_at - fault.began_at
            late = f"{fault.name} at {clock(fault.began_at)}: whole again after {took_s:.1f} s, promised {WHOLE_S} s"
            yield late if took_s > WHOLE_S or not fault.detail.get("whole", True) else None


def _late_in(run: Run, flood: Fault, others: Sequence[Window], orphans: Sequence[Orphans]) -> Iterator[str | None]:
    end = flood.ended_at + FLOOD_TAIL_S
    for firing in run.firings:
        record = firing.record
        if record.tenant_id == flood.detail["tenant"] or not flood.began_at <= record.due_date.timestamp() <= end:
            continue
        late_s = firing.fired_s - firing.ready_s
        if late_s <= FLOODED_S:
            yield None
            continue
        in_time = firing.fired_s <= deadline_s(others, firing.ready_s, allowed_s=FLOODED_S)
        excused = in_time or waits_for_takeover(orphans, firing, allowed_s=FLOODED_S)
        yield None if excused else f"{record_of(record)}: {late_s:.3f} s late in a flood"
