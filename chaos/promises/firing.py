"""S1 to S4, S7 and D1: what was asked for fires once, not early, not never, and not after it was cancelled."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from chaos.history import Call, Recorded, TimerDeleted, TimerWritten
from chaos.lives import Life, Run
from chaos.promises.wording import call_of, clock, record_of, row_of
from chaos.windows import set_back_at

TRANSACTION_S = 5.0  # the longest that a shard's may take
SEEN_S = 1.0  # a commit's time is taken before others can see what it did
CLOCK_SLACK_S = 0.005  # two clocks of one machine, read one after the other


def never_early(run: Run) -> Iterator[str | None]:
    """Hold each firing against its due date, the record's and the row's; and each row against what was asked for.

    A due date that a client named is kept as it is. A delay counts from when the call began or later, unless
    Postgres's clock was ever set wrong; when it is set back, a record may bear an earlier time than its transaction.
    """
    for firing in run.firings:
        record, row = firing.record, firing.row
        due_date = record.due_date if row is None or row.paused else max(record.due_date, row.due_date)
        early_s = (due_date - record.recorded_at).total_seconds()
        set_back = early_s > 0 and set_back_at(
            run.history.faults, record.recorded_at.timestamp(), give_or_take_s=TRANSACTION_S
        )
        yield f"{record_of(record)}: early" if early_s > 0 and not set_back else None
    for key, wanted in run.wanted.items():
        row = _first_row(run.lives.get(key))
        if row is None:
            continue
        if wanted.asked.due_date is not None:
            same = row.due_date == wanted.asked.due_date
            yield None if same else f"{row_of(row)}: due {row.due_date}, asked for {wanted.asked.due_date}"
        elif wanted.asked.delay_s is not None and run.clock_is_true:
            earliest_s = wanted.calls[0].began_at + wanted.asked.delay_s
            late = row.due_date.timestamp() >= earliest_s - CLOCK_SLACK_S
            yield None if late else f"{row_of(row)}: due {clock(row.due_date)}, not before {clock(earliest_s)}"


def never_lost(run: Run) -> Iterator[str | None]:
    """Look for each acknowledged timer in the commits, and for a record of its end where a row was deleted.

    A timer whose call has an unknown outcome may be there or not; if it is there, the same holds. A row that was never
    deleted is pending: that the table agrees, the checker sees to.
    """
    for key, wanted in run.wanted.items():
        if wanted.acknowledged_at is not None and key not in run.lives:
            yield f"timer {key} of {wanted.tenant_id}: acknowledged at {clock(wanted.acknowledged_at)}, never committed"
    for life in run.lives.values():
        gone = [number for number, change in life.steps if isinstance(change, TimerDeleted)]
        ended = {number for number, _ in life.endings()}
        vanished = [number for number in gone if number not in ended]
        where = f"in the commit at {clock(run.committed_s[vanished[0]])}" if vanished else ""
        yield f"{_told(life)}: deleted without a record {where}" if vanished else None


def once(run: Run) -> Iterator[str | None]:
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
        yield None if times == 1 else f"{record_of(record)}: fired {times} times"


def cancelled_for_good(run: Run) -> Iterator[str | None]:
    """Hold each timer that was cancelled against its firings, and what clients were told against the records.

    CANCELED, TRIGGERED, SKIPPED and RESCHEDULED mean that such a record was committed before the answer came; UNKNOWN,
    that no such timer was there before. What was moved fires at its last due date only. A failed call made nothing.
    """
    for life in run.lives.values():
        fired = life.records("TRIGGERED")
        if cancelled := life.records("CANCELED"):
            yield (
                f"{record_of(fired[-1][1])}: it was cancelled at {clock(cancelled[0][1].recorded_at)}"
                if fired
                else None
            )
        if fired and life.row and life.records("RESCHEDULED"):
            yield (
                None
                if fired[-1][1].due_date == life.row.due_date
                else (f"{record_of(fired[-1][1])}: it had been moved to {clock(life.row.due_date)}")
            )
    for call in run.history.calls:
        if call.verb in ("cancel", "reschedule") and call.outcome == "ok":
            yield None if _is_true(run, call) else f"{call_of(call)}: {_known(run, call)}"
    for key, wanted in run.wanted.items():
        if all(call.outcome == "fail" or key in call.refused for call in wanted.calls):
            yield f"timer {key} of {wanted.tenant_id}: refused, and yet committed" if key in run.lives else None


def one_key_one_timer(run: Run) -> Iterator[str | None]:
    """Count the inserts under each key, and see that no timer was made that nobody asked for but its schedule."""
    for key, life in run.lives.items():
        rows = [change for _, change in life.steps if isinstance(change, TimerWritten) and change.new]
        if not rows:
            continue
        if len(rows) > 1:
            yield f"{row_of(rows[0])}: made {len(rows)} times"
        elif rows[0].instance_key is not None:
            yield None  # P4 sees to what a node of an instance waits for
        elif key not in run.wanted and key not in run.poisoned and (rows[0].occurrence == 1 or not rows[0].schedule):
            yield f"{row_of(rows[0])}: nobody asked for it"
        else:
            yield None


def survives_a_crash(run: Run) -> Iterator[str | None]:
    """Look in the commits for each timer that was acknowledged before the store last broke."""
    broke_at = max((fault.began_at for fault in run.history.faults if fault.kind == "store"), default=0.0)
    for key, wanted in run.wanted.items():
        acknowledged_at = wanted.acknowledged_at
        if acknowledged_at is not None and acknowledged_at < broke_at:
            lost = f"timer {key} of {wanted.tenant_id}: acknowledged at {clock(acknowledged_at)}, gone after the crash"
            yield None if key in run.lives else lost


def _first_row(life: Life | None) -> TimerWritten | None:
    steps = life.steps if life else ()
    return next((change for _, change in steps if isinstance(change, TimerWritten) and change.new), None)


def _told(life: Life) -> str:
    return row_of(life.row) if life.row else f"timer {life.timer_key}"


def _named(run: Run, call: Call) -> list[Life]:
    """Find the timers that a verb may have meant."""
    keys = [call.timer_key] if call.timer_key is not None else run.names.get((call.tenant_id, call.name or ""), [])
    return [run.lives[key] for key in keys if key in run.lives]


def _is_true(run: Run, call: Call) -> bool:
    lives = _named(run, call)
    if call.answer == "UNKNOWN":
        return not any(_was_there(run, life, call.began_at - CLOCK_SLACK_S) for life in lives)
    records = [it for life in lives for it in life.records(call.answer or "") if _was_told(run, call, it[0])]
    if call.answer == "CANCELED":
        last = max((number for number, _ in records), default=0)
        fired = max((number for life in lives for number, _ in life.records("TRIGGERED")), default=-1)
        return bool(records) and fired < last
    if call.answer == "RESCHEDULED":
        return any(_is_as_asked(run, call, record) for _, record in records)
    return bool(records)


def _was_there(run: Run, life: Life, at_s: float) -> bool:
    """Say whether everybody could see a timer: its client was told so, or it was committed a while ago."""
    wanted = run.wanted.get(life.timer_key)
    if wanted is not None and wanted.acknowledged_at is not None:
        return wanted.acknowledged_at < at_s
    return life.born is not None and run.committed_s[life.born] + SEEN_S < at_s


def _was_told(run: Run, call: Call, number: int) -> bool:
    """Say whether a record was committed before the answer came, as far as the clocks can tell."""
    ended_at = call.ended_at if call.ended_at is not None else run.history.ended_at
    return not run.clock_is_true or run.committed_s[number] <= ended_at + CLOCK_SLACK_S


def _is_as_asked(run: Run, call: Call, record: Recorded) -> bool:
    moved_to = moved_to_of(record)
    if moved_to is None or call.delay_s is None or not run.clock_is_true:
        return True
    return moved_to.timestamp() >= call.began_at + call.delay_s - CLOCK_SLACK_S


def moved_to_of(record: Recorded) -> datetime | None:
    """Read from a RESCHEDULED record where it was moved to; None if to another rule."""
    due_date = json.loads(record.detail or "{}").get("due_date")
    return datetime.fromisoformat(due_date) if due_date else None


def _known(run: Run, call: Call) -> str:
    lives = _named(run, call)
    records = [record_of(record) for life in lives for _, record in life.records()]
    return "; ".join(records[-3:]) or ("it was there" if lives else "there is no such timer")
