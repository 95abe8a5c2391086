"""S8, S9 and B1: whoever writes to a timer may, and what is written is a step that a timer can take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from chaos.history import Change, Recorded, TimerDeleted, TimerWritten
from chaos.lives import ENDINGS, Life, Run, commits_of, is_free
from chaos.promises.firing import moved_to_of
from chaos.promises.schedules import covers, rule_of, skipped_before
from chaos.promises.wording import clock, record_of, row_of

# What a transaction saw may be this much older than its commit: a statement's time limit, and some.
SNAPSHOT_S = 5.0
# No lease lasts that long; one that seems to was taken by a clock that has been set back since, and is free.
LEASE_MAX_S = 15.0


def fenced(run: Run) -> Iterator[str | None]:
    """Hold each claim, and each record by a holder, against the claim that stood when its transaction committed.

    Somebody else's claim stands until its time is up, or its holder has ended, or is suspended. A firing without any
    claim is right as long as no claim of another stands. An engine cancels what its token waits for no more, as a
    client does, whoever has claimed it.
    """
    for life in run.lives.values():
        row = before = None
        last = -1
        for number, change in life.steps:
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


def step_by_step(run: Run) -> Iterator[str | None]:
    """Follow each timer from commit to commit: made, claimed, moved, paused; then deleted, with one record why.

    A due date is changed by a RESCHEDULED record, or by the shard that plans a schedule. A schedule's firing brings its
    next occurrence in the same commit, unless it was the last. What is lost S2 names, what fires twice S3, what fires
    though it was cancelled S4, and what is made twice S7.
    """
    for life in run.lives.values():
        named = _is_named_elsewhere(life)
        row: TimerWritten | None = None
        for number, changes in commits_of(life.steps):
            offence = _offence(row, changes, named=named)
            yield f"{offence}, in the commit at {clock(run.committed_s[number])}" if offence else None
            row = _row_after(row, changes)
    yield from _one_after_another(run)


def few_at_a_time(run: Run) -> Iterator[str | None]:
    """Count the claims of each commit that claims at all."""
    for number, commit in enumerate(run.history.commits):
        claims = sum(isinstance(it, TimerWritten) and not it.new and it.claimed_by is not None for it in commit.changes)
        if claims:
            told = f"{claims} timers claimed in the commit at {clock(run.committed_s[number])}"
            yield told if claims > run.history.bounds.claim_max else None


def _stands(run: Run, row: TimerWritten | None, holder: int, number: int) -> str:
    """Tell of the claim that stands against a holder's write; nothing if none does."""
    if row is None or row.claimed_by in (None, holder) or row.claimed_until is None:
        return ""
    left_s = row.claimed_until.timestamp() - run.committed_s[number]
    if left_s <= 0 or (left_s > LEASE_MAX_S and not run.clock_is_true):
        return ""
    if is_free(run, row.claimed_by, number, snapshot_s=SNAPSHOT_S):
        return ""
    at = clock(run.committed_s[number])
    return f"in the commit at {at}, while {row.claimed_by:x} had it until {clock(row.claimed_until)}"


def _is_named_elsewhere(life: Life) -> bool:
    """Say whether S3 or S4 tells of this timer that it ended more than once."""
    intents = [record.intent for _, record in life.endings()]
    return intents.count("TRIGGERED") > 1 or {"TRIGGERED", "CANCELED"} <= set(intents)


def _row_after(row: TimerWritten | None, changes: Sequence[Change]) -> TimerWritten | None:
    for change in changes:
        if isinstance(change, TimerWritten):
            row = change
    return None if any(isinstance(change, TimerDeleted) for change in changes) else row


def _offence(row: TimerWritten | None, changes: Sequence[Change], *, named: bool) -> str:
    """Say what is wrong with what one commit did to a timer, which had this row before; nothing if all is right."""
    rows = [change for change in changes if isinstance(change, TimerWritten)]
    records = {change.intent: change for change in changes if isinstance(change, Recorded)}
    last = rows[-1] if rows else row
    if last is None:
        return "".join(f"{record_of(it)}: a record without its row" for it in list(records.values())[:1] if not named)
    own = [change for change in changes if isinstance(change, Recorded) and _ends(change, last)]
    if not named and own and not any(isinstance(change, TimerDeleted) for change in changes):
        return f"{record_of(own[0])}: ended, and its row is still there"
    if not named and len(own) > 1:
        return f"{record_of(own[0])}: ended in {len(own)} ways"
    return _wrong_row(row, rows, records) or _wrong_record(last, rows, records)


def _ends(record: Recorded, row: TimerWritten) -> bool:
    return record.intent in ENDINGS and (record.intent != "SKIPPED" or record.occurrence == row.occurrence)


def _wrong_row(row: TimerWritten | None, rows: Sequence[TimerWritten], records: Mapping[str, Recorded]) -> str:
    """Say which update has no record that explains it."""
    for new in rows:
        if row is not None and not new.new:
            if (new.tenant_id, new.occurrence) != (row.tenant_id, row.occurrence):
                return f"{row_of(row)}: became {row_of(new)}"
            if new.paused != row.paused:
                if ("PAUSED" if new.paused else "RESUMED") not in records:
                    return f"{row_of(row)}: {'paused' if new.paused else 'resumed'} without a record"
            elif new.due_date != row.due_date and "RESCHEDULED" not in records and not _is_planned(row, new):
                return f"{row_of(row)}: moved to {clock(new.due_date)} without a record"
        row = new
    return ""


def _wrong_record(last: TimerWritten, rows: Sequence[TimerWritten], records: Mapping[str, Recorded]) -> str:
    """Say which record tells of an update that is not there."""
    for intent in ("RESCHEDULED", "PAUSED", "RESUMED"):
        if intent in records and not rows:
            return f"{record_of(records[intent])}: its row was left as it was"
    if "RESCHEDULED" in records and not last.paused:
        moved_to = moved_to_of(records["RESCHEDULED"])
        if moved_to not in (None, last.due_date):
            return f"{record_of(records['RESCHEDULED'])}: its row is due {clock(last.due_date)}"
    return ""


def _is_planned(row: TimerWritten, new: TimerWritten) -> bool:
    """Say whether a shard that had claimed a schedule gave it the date that its client had left open."""
    return row.schedule is not None and row.claimed_by is not None and new.claimed_by is None


def _one_after_another(run: Run) -> Iterator[str | None]:
    """See that occurrences are made when the one before ends, and that each one that ends makes the next."""
    for schedule, steps in run.schedules.items():
        wanted = run.wanted_of(0, schedule)
        rule = rule_of(wanted)
        for _, changes in commits_of(steps):
            rows = [change for change in changes if isinstance(change, TimerWritten)]
            records = [change for change in changes if isinstance(change, Recorded)]
            ended = [record for record in records if record.intent != "CANCELED"]
            if rows and rows[0].occurrence > 1:
                yield None if ended else f"{row_of(rows[0])}: made although none before it ended"
            last = max((record.occurrence + covers(record) - 1 for record in ended), default=0)
            fired = last - skipped_before(steps, last + 1)
            if ended and not rows and rule is not None:
                yield (
                    None
                    if rule.count is not None and fired >= rule.count
                    else f"{record_of(ended[0])}: nothing follows"
                )
