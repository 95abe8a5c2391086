"""Check S8, S9 and B1: each change of a timer is legal, its writer was allowed to make it, and claims are limited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from chaos.history.changes import Change, Recorded, TimerDeleted, TimerWritten
from chaos.promises.firings import moved_to_of
from chaos.promises.schedules import covers, rule_of, skipped_before
from chaos.promises.wording import clock, record_of, row_of
from chaos.run_index import ENDINGS, RunIndex, TimerHistory, commits_of, is_free

# The maximum age of a transaction's snapshot at its commit: the time limit of a statement, plus a margin.
SNAPSHOT_S = 5.0
# The maximum length of a lease. A longer lease was written before the clock was set back, so its timer counts as free.
LEASE_MAX_S = 15.0


def fenced(run: RunIndex) -> Iterator[str | None]:
    """Compare each claim and each record of a holder with the claim that was valid at the commit.

    A claim is valid until its time ends, or its holder ends or is suspended. A firing without a claim is legal if no
    other holder has a valid claim. An engine may cancel a claimed timer that a token no longer needs, and a client may
    cancel any claimed timer.
    """
    for timer in run.timers.values():
        row = before = None
        last = -1
        for number, change in timer.steps:
            if number != last:
                last, before = number, row
            if isinstance(change, TimerWritten):
                if (
                    not change.new
                    and change.claimed_by is not None
                    and change.claimed_by != (before and before.claimed_by)
                ):
                    stands = _stands(run, before, change.claimed_by, number)
                    yield f"{row_of(change)}: claimed by {change.claimed_by:x} {stands}" if stands else None
                row = change
            elif isinstance(change, Recorded) and change.holder is not None and change.intent != "CANCELED":
                stands = _stands(run, before, change.holder, number)
                yield f"{record_of(change)} {stands}" if stands else None


def legal_transitions(run: RunIndex) -> Iterator[str | None]:
    """Follow each timer through its commits: creation, claims, moves and pauses, and the deletion with one end record.

    A due date changes only with a RESCHEDULED record, or when a shard plans a schedule. The firing of a schedule
    creates the next occurrence in the same commit, unless the firing was the last. This check omits violations that
    other promises report: lost timers (S2), second firings (S3), firings after a cancellation (S4) and second inserts
    (S7).
    """
    for timer in run.timers.values():
        reported = _is_reported_elsewhere(timer)
        row: TimerWritten | None = None
        for number, changes in commits_of(timer.steps):
            violation = _violation(row, changes, reported=reported)
            yield f"{violation}, in the commit at {clock(run.committed_s[number])}" if violation else None
            row = _row_after(row, changes)
    yield from _one_after_another(run)


def claims_bounded(run: RunIndex) -> Iterator[str | None]:
    """Check the number of claims in each commit."""
    for number, commit in enumerate(run.history.commits):
        claims = sum(isinstance(it, TimerWritten) and not it.new and it.claimed_by is not None for it in commit.changes)
        if claims:
            told = f"{claims} timers claimed in the commit at {clock(run.committed_s[number])}"
            yield told if claims > run.history.bounds.claim_max else None


def _stands(run: RunIndex, row: TimerWritten | None, holder: int, number: int) -> str:
    """Describe the valid claim of another holder that conflicts with a holder's write; empty without a conflict."""
    if row is None or row.claimed_by in (None, holder) or row.claimed_until is None:
        return ""
    left_s = row.claimed_until.timestamp() - run.committed_s[number]
    if left_s <= 0 or (left_s > LEASE_MAX_S and not run.clock_is_true):
        return ""
    if is_free(run, row.claimed_by, number, snapshot_s=SNAPSHOT_S):
        return ""
    at = clock(run.committed_s[number])
    return f"in the commit at {at}, while {row.claimed_by:x} had a claim until {clock(row.claimed_until)}"


def _is_reported_elsewhere(timer: TimerHistory) -> bool:
    """Return whether S3 or S4 reports that this timer ended more than once."""
    intents = [record.intent for _, record in timer.endings()]
    return intents.count("TRIGGERED") > 1 or {"TRIGGERED", "CANCELED"} <= set(intents)


def _row_after(row: TimerWritten | None, changes: Sequence[Change]) -> TimerWritten | None:
    for change in changes:
        if isinstance(change, TimerWritten):
            row = change
    return None if any(isinstance(change, TimerDeleted) for change in changes) else row


def _violation(row: TimerWritten | None, changes: Sequence[Change], *, reported: bool) -> str:
    """Describe an illegal change of a timer in one commit.

    `row` is the row before the change. The text is empty if the change is legal.
    """
    rows = [change for change in changes if isinstance(change, TimerWritten)]
    records = {change.intent: change for change in changes if isinstance(change, Recorded)}
    last = rows[-1] if rows else row
    if last is None:
        return "".join(f"{record_of(it)}: the record has no row" for it in list(records.values())[:1] if not reported)
    own = [change for change in changes if isinstance(change, Recorded) and _ends(change, last)]
    if not reported and own and not any(isinstance(change, TimerDeleted) for change in changes):
        return f"{record_of(own[0])}: the timer has ended, and the row still exists"
    if not reported and len(own) > 1:
        return f"{record_of(own[0])}: the timer has {len(own)} end records"
    return _wrong_row(row, rows, records) or _wrong_record(last, rows, records)


def _ends(record: Recorded, row: TimerWritten) -> bool:
    return record.intent in ENDINGS and (record.intent != "SKIPPED" or record.occurrence == row.occurrence)


def _wrong_row(row: TimerWritten | None, rows: Sequence[TimerWritten], records: Mapping[str, Recorded]) -> str:
    """Describe an update of a timer without the necessary record in the same commit; empty if there is none."""
    for new in rows:
        if row is not None and not new.new:
            if (new.tenant_id, new.occurrence) != (row.tenant_id, row.occurrence):
                return f"{row_of(row)}: the row changed to {row_of(new)}"
            if new.paused != row.paused:
                if ("PAUSED" if new.paused else "RESUMED") not in records:
                    return f"{row_of(row)}: {'paused' if new.paused else 'resumed'} without a record"
            elif new.due_date != row.due_date and "RESCHEDULED" not in records and not _is_planned(row, new):
                return f"{row_of(row)}: moved to {clock(new.due_date)} without a record"
        row = new
    return ""


def _wrong_record(last: TimerWritten, rows: Sequence[TimerWritten], records: Mapping[str, Recorded]) -> str:
    """Describe a record of a move, pause or resumption whose row did not change accordingly; empty if there is none."""
    for intent in ("RESCHEDULED", "PAUSED", "RESUMED"):
        if intent in records and not rows:
            return f"{record_of(records[intent])}: the row did not change"
    if "RESCHEDULED" in records and not last.paused:
        moved_to = moved_to_of(records["RESCHEDULED"])
        if moved_to not in (None, last.due_date):
            return f"{record_of(records['RESCHEDULED'])}: the row has the due date {clock(last.due_date)}"
    return ""


def _is_planned(row: TimerWritten, new: TimerWritten) -> bool:
    """Return whether a shard legally changed the due date: it computed the first date of a schedule that it leased."""
    return row.schedule is not None and row.claimed_by is not None and new.claimed_by is None


def _one_after_another(run: RunIndex) -> Iterator[str | None]:
    """Check that the end of each occurrence creates exactly one next occurrence."""
    for schedule, steps in run.schedules.items():
        request = run.request_of(0, schedule)
        rule = rule_of(request)
        for _, changes in commits_of(steps):
            rows = [change for change in changes if isinstance(change, TimerWritten)]
            records = [change for change in changes if isinstance(change, Recorded)]
            ended = [record for record in records if record.intent != "CANCELED"]
            if rows and rows[0].occurrence > 1:
                yield None if ended else f"{row_of(rows[0])}: the previous occurrence has not ended"
            last = max((record.occurrence + covers(record) - 1 for record in ended), default=0)
            fired = last - skipped_before(steps, last + 1)
            if ended and not rows and rule is not None:
                yield (
                    None
                    if rule.count is not None and fired >= rule.count
                    else f"{record_of(ended[0])}: the next occurrence was not created"
                )
