"""Check S1 to S4, S7 and D1: each requested timer fires once, not early, and not after its cancellation."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from chaos.fault_windows import set_back_at
from chaos.history.calls import Call
from chaos.history.changes import Recorded, TimerDeleted, TimerWritten
from chaos.promises.pauses import ended_early
from chaos.promises.wording import call_of, clock, record_of, row_of
from chaos.run_index import RunIndex, TimerHistory

TRANSACTION_S = 5.0  # The time limit of a shard's transaction.
SEEN_S = 1.0  # The changes of a commit become visible at most this much later than its timestamp.
CLOCK_SLACK_S = 0.005  # The possible difference between two clocks of one machine that are read one after the other.


def never_early(run: RunIndex) -> Iterator[str | None]:
    """Compare each firing with the due dates of its record and of its row, and each row with its request.

    A due date that the client gave must not change. A delay counts from the start of the call or later, unless
    Postgres's clock was wrong during the run. After Postgres's clock is set back, a record may have an earlier time
    than its transaction. A paused timer waits for the end of its pause.
    """
    yield from ended_early(run)
    for firing in run.firings:
        record, row = firing.record, firing.row
        due_date = record.due_date if row is None or row.paused else max(record.due_date, row.due_date)
        early_s = (due_date - record.recorded_at).total_seconds()
        set_back = early_s > 0 and set_back_at(
            run.history.faults, record.recorded_at.timestamp(), give_or_take_s=TRANSACTION_S
        )
        yield f"{record_of(record)}: the timer fired early" if early_s > 0 and not set_back else None
    for key, request in run.requests.items():
        row = _first_row(run.timers.get(key))
        if row is None:
            continue
        if request.timer.due_date is not None:
            same = row.due_date == request.timer.due_date
            yield (
                None
                if same
                else (f"{row_of(row)}: the due date is {row.due_date}, the request had {request.timer.due_date}")
            )
        elif request.timer.delay_s is not None and run.clock_is_true:
            earliest_s = request.calls[0].began_at + request.timer.delay_s
            late = row.due_date.timestamp() >= earliest_s - CLOCK_SLACK_S
            yield (
                None
                if late
                else (
                    f"{row_of(row)}: the due date is {clock(row.due_date)}, and must not be before {clock(earliest_s)}"
                )
            )


def never_lost(run: RunIndex) -> Iterator[str | None]:
    """Check that each acknowledged timer was committed, and that each deleted row has a record of its end.

    A timer with an unknown outcome may be missing. If the timer was committed, its deleted row must also have a record.
    If a row was never deleted, the timer is pending, and the checker compares the row with the table.
    """
    for key, request in run.requests.items():
        if request.acknowledged_at is not None and key not in run.timers:
            at = clock(request.acknowledged_at)
            yield f"timer {key} of {request.tenant_id}: the timer was acknowledged at {at}, and was never committed"
    for timer in run.timers.values():
        gone = [number for number, change in timer.steps if isinstance(change, TimerDeleted)]
        ended = {number for number, _ in timer.endings()}
        vanished = [number for number in gone if number not in ended]
        where = f"in the commit at {clock(run.committed_s[vanished[0]])}" if vanished else ""
        yield f"{_name(timer)}: the row was deleted without a record {where}" if vanished else None


def once(run: RunIndex) -> Iterator[str | None]:
    """Count the TRIGGERED records of each timer, and of each occurrence of a schedule."""
    keys: Counter[int] = Counter()
    occurrences: Counter[tuple[str, str | None, int]] = Counter()
    for firing in run.firings:
        record = firing.record
        keys[record.timer_key] += 1
        times = keys[record.timer_key]
        if record.schedule is not None:
            occurrence = (record.tenant_id, record.name, record.occurrence)
            occurrences[occurrence] += 1
            times = max(times, occurrences[occurrence])
        yield None if times == 1 else f"{record_of(record)}: the timer fired {times} times"


def cancelled_stays(run: RunIndex) -> Iterator[str | None]:
    """Check that no cancelled timer fires, and compare clients' answers with the records.

    For the answers CANCELED, TRIGGERED, SKIPPED, PAUSED and RESCHEDULED, a record with this intent must be committed
    before the answer. If the answer is UNKNOWN, the timer must not exist before the answer. A moved timer fires only at
    its last due date. A failed call creates no timer.
    """
    for timer in run.timers.values():
        fired = timer.records("TRIGGERED")
        if cancelled := timer.records("CANCELED"):
            yield (
                f"{record_of(fired[-1][1])}: the timer was cancelled at {clock(cancelled[0][1].recorded_at)}"
                if fired
                else None
            )
        if fired and timer.row and timer.records("RESCHEDULED"):
            yield (
                None
                if fired[-1][1].due_date == timer.row.due_date
                else (f"{record_of(fired[-1][1])}: the timer had been moved to {clock(timer.row.due_date)}")
            )
    for call in run.history.calls:
        if call.verb in ("cancel", "reschedule", "pause") and call.outcome == "ok":
            yield None if _is_true(run, call) else f"{call_of(call)}: {_known(run, call)}"
    for key, request in run.requests.items():
        if all(call.outcome == "fail" or key in call.refused for call in request.calls):
            yield (
                (f"timer {key} of {request.tenant_id}: the timer was refused, and was committed")
                if key in run.timers
                else None
            )


def one_key_one_timer(run: RunIndex) -> Iterator[str | None]:
    """Count the inserts of each key, and check that each timer comes from a request or from its schedule."""
    for key, timer in run.timers.items():
        rows = [change for _, change in timer.steps if isinstance(change, TimerWritten) and change.new]
        if not rows:
            continue
        if len(rows) > 1:
            yield f"{row_of(rows[0])}: the timer was inserted {len(rows)} times"
        elif rows[0].instance_key is not None:
            yield None  # P4 checks the timers of an instance's nodes
        elif key not in run.requests and key not in run.poisoned and (rows[0].occurrence == 1 or not rows[0].schedule):
            yield f"{row_of(rows[0])}: no client requested this change"
        else:
            yield None


def survives_a_crash(run: RunIndex) -> Iterator[str | None]:
    """Check that each timer that was acknowledged before the last outage of the store was committed."""
    broke_at = max((fault.began_at for fault in run.history.faults if fault.kind == "store"), default=0.0)
    for key, request in run.requests.items():
        acknowledged_at = request.acknowledged_at
        if acknowledged_at is not None and acknowledged_at < broke_at:
            lost = (
                f"timer {key} of {request.tenant_id}: the timer was acknowledged at {clock(acknowledged_at)},"
                " and was lost in the crash"
            )
            yield None if key in run.timers else lost


def _first_row(timer: TimerHistory | None) -> TimerWritten | None:
    steps = timer.steps if timer else ()
    return next((change for _, change in steps if isinstance(change, TimerWritten) and change.new), None)


def _name(timer: TimerHistory) -> str:
    return row_of(timer.row) if timer.row else f"timer {timer.timer_key}"


def _named(run: RunIndex, call: Call) -> list[TimerHistory]:
    """Find the timers that match a verb's key or name."""
    keys = [call.timer_key] if call.timer_key is not None else run.names.get((call.tenant_id, call.name or ""), [])
    return [run.timers[key] for key in keys if key in run.timers]


def _is_true(run: RunIndex, call: Call) -> bool:
    timers = _named(run, call)
    if call.answer == "UNKNOWN":
        return not any(_was_there(run, timer, call.began_at - CLOCK_SLACK_S) for timer in timers)
    records = [it for timer in timers for it in timer.records(call.answer or "") if _was_told(run, call, it[0])]
    if call.answer == "CANCELED":
        last = max((number for number, _ in records), default=0)
        fired = max((number for timer in timers for number, _ in timer.records("TRIGGERED")), default=-1)
        return bool(records) and fired < last
    if call.answer == "RESCHEDULED":
        return any(_is_as_requested(run, call, record) for _, record in records)
    return bool(records)


def _was_there(run: RunIndex, timer: TimerHistory, at_s: float) -> bool:
    """Return whether other clients could see a timer at `at_s`.

    A timer is visible once the client that scheduled the timer has its answer, and at the latest SEEN_S after the
    timer's commit.
    """
    request = run.requests.get(timer.timer_key)
    if request is not None and request.acknowledged_at is not None:
        return request.acknowledged_at < at_s
    return timer.inserted is not None and run.committed_s[timer.inserted] + SEEN_S < at_s


def _was_told(run: RunIndex, call: Call, number: int) -> bool:
    """Return whether a record was committed before the answer, within the accuracy of the clocks."""
    ended_at = call.ended_at if call.ended_at is not None else run.history.ended_at
    return not run.clock_is_true or run.committed_s[number] <= ended_at + CLOCK_SLACK_S


def _is_as_requested(run: RunIndex, call: Call, record: Recorded) -> bool:
    moved_to = moved_to_of(record)
    if moved_to is None or call.delay_s is None or not run.clock_is_true:
        return True
    return moved_to.timestamp() >= call.began_at + call.delay_s - CLOCK_SLACK_S


def moved_to_of(record: Recorded) -> datetime | None:
    """Read the new due date of a RESCHEDULED record; None if the record has a new rule instead."""
    due_date = json.loads(record.detail or "{}").get("due_date")
    return datetime.fromisoformat(due_date) if due_date else None


def _known(run: RunIndex, call: Call) -> str:
    timers = _named(run, call)
    records = [record_of(record) for timer in timers for _, record in timer.records()]
    return "; ".join(records[-3:]) or ("the timer existed" if timers else "the timer did not exist")
