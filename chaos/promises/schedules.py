"""S5 and S6: a schedule's occurrences come in order, none is missing without a record, and each when it should."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from chaos.history import Recorded, TimerWritten
from chaos.lives import Life, Run, Wanted, commits_of
from chaos.oracle import Rule, read_rule
from chaos.promises.firing import CLOCK_SLACK_S
from chaos.promises.wording import clock, record_of, row_of


def in_order(run: Run) -> Iterator[str | None]:
    """Count each schedule's occurrences in commit order: 1, 2, 3 …, where SKIPPED ones stand for as many as they say.

    What fires a second time, S3 names.
    """
    for steps in run.schedules.values():
        expected = 1
        fired: set[int] = set()
        for _, changes in commits_of(steps):
            records = [it for it in changes if isinstance(it, Recorded) and it.intent != "CANCELED"]
            for record in sorted(records, key=lambda it: it.occurrence):
                if record.intent == "TRIGGERED" and record.occurrence in fired:
                    continue
                in_turn = record.occurrence == expected
                yield None if in_turn else f"{record_of(record)}: it is the turn of #{expected}"
                fired.add(record.occurrence)
                expected = record.occurrence + covers(record)
            for row in changes:
                if isinstance(row, TimerWritten):
                    yield None if row.occurrence == expected else f"{row_of(row)}: made in the turn of #{expected}"
                    expected = row.occurrence


def as_the_oracle_says(run: Run) -> Iterator[str | None]:
    """Hold each occurrence's due date, and how many fire in all, against an oracle that shares no code.

    An occurrence that a client moved counts with the date that it had before. The first one comes as long after the
    schedule was made as the rule says, at the latest.
    """
    for schedule, steps in run.schedules.items():
        wanted = run.wanted_of(0, schedule)
        rule = rule_of(wanted)
        rows = [change for _, change in steps if isinstance(change, TimerWritten)]
        if wanted is None or rule is None or not rows:
            continue
        first = planned_of(run.lives[rows[0].timer_key])
        if run.clock_is_true:
            latest = rule.latest_first(run.history.commits[steps[0][0]].committed_at).timestamp() + CLOCK_SLACK_S
            late = first.due_date.timestamp() > latest
            yield f"{row_of(first)}: due {clock(first.due_date)}, not after {clock(latest)}" if late else None
        for row in rows:
            yield from _as_the_rule_says(run.lives[row.timer_key], first, rule)
            number = row.occurrence - skipped_before(steps, row.occurrence)
            if rule.count is not None and number > rule.count:
                yield f"{row_of(row)}: there are {rule.count} firings in all"


def covers(record: Recorded) -> int:
    """Say how many occurrences a record stands for: a SKIPPED one for as many as its detail counts."""
    return int(json.loads(record.detail or "{}").get("count", 1)) if record.intent == "SKIPPED" else 1


def skipped_before(steps: Iterable[tuple[int, object]], number: int) -> int:
    """Count the occurrences below a number that were skipped: they use up none of a rule's firings."""
    records = [it for _, it in steps if isinstance(it, Recorded) and it.intent == "SKIPPED" and it.occurrence < number]
    return sum(map(covers, records))


def rule_of(wanted: Wanted | None) -> Rule | None:
    """Read the rule as the client wrote it; None if there is none that the oracle knows."""
    return read_rule(wanted.asked.rule) if wanted and wanted.asked.rule else None


def planned_of(life: Life) -> TimerWritten:
    """Find the row as the schedule planned it, before a client moved it."""
    planned = None
    moved = {number for number, _ in life.records("RESCHEDULED")}
    for number, change in life.steps:
        if isinstance(change, TimerWritten) and not change.paused and (planned is None or number not in moved):
            planned = change
        if number in moved and planned is not None:
            break
    assert planned is not None, "a row of a schedule was inserted"
    return planned


def _as_the_rule_says(life: Life, first: TimerWritten, rule: Rule) -> Iterator[str | None]:
    row = planned_of(life)
    due = rule.due(first.due_date, row.occurrence)
    told = f"due {clock(row.due_date)}, by the oracle {'never' if due is None else clock(due)}"
    yield None if row.due_date == due else f"{row_of(row)}: {told}"
    if not life.records("RESCHEDULED"):
        for _, record in life.records("TRIGGERED"):
            yield None if record.due_date == row.due_date else f"{record_of(record)}: {told}"
