"""Check S5 and S6: a schedule's occurrences fire in order and without a gap, each at its due date."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from chaos.history.changes import Recorded, TimerWritten
from chaos.oracle import Rule, read_rule
from chaos.promises.firings import CLOCK_SLACK_S
from chaos.promises.wording import clock, record_of, row_of
from chaos.run_index import RequestHistory, RunIndex, TimerHistory, commits_of


def in_order(run: RunIndex) -> Iterator[str | None]:
    """Check that the occurrences of each schedule have the numbers 1, 2, 3 … in commit order.

    A SKIPPED record covers the number of occurrences in its detail. S3 reports an occurrence that fires again.
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
                yield None if in_turn else f"{record_of(record)}: the next occurrence is #{expected}"
                fired.add(record.occurrence)
                expected = record.occurrence + covers(record)
            for row in changes:
                if isinstance(row, TimerWritten):
                    yield None if row.occurrence == expected else f"{row_of(row)}: the next occurrence is #{expected}"
                    expected = row.occurrence


def agrees_with_oracle(run: RunIndex) -> Iterator[str | None]:
    """Compare each occurrence's due date, and the number of firings, with an independent oracle.

    For a moved occurrence, the check uses the date before the move. The first occurrence must not be later than the
    rule's first date after the creation of the schedule.
    """
    for schedule, steps in run.schedules.items():
        request = run.request_of(0, schedule)
        rule = rule_of(request)
        rows = [change for _, change in steps if isinstance(change, TimerWritten)]
        if request is None or rule is None or not rows:
            continue
        first = planned_of(run.timers[rows[0].timer_key])
        if run.clock_is_true:
            latest = rule.latest_first(run.history.commits[steps[0][0]].committed_at).timestamp() + CLOCK_SLACK_S
            late = first.due_date.timestamp() > latest
            yield (
                (f"{row_of(first)}: the due date is {clock(first.due_date)}, and must not be after {clock(latest)}")
                if late
                else None
            )
        for row in rows:
            yield from _agrees_with_rule(run.timers[row.timer_key], first, rule)
            number = row.occurrence - skipped_before(steps, row.occurrence)
            if rule.count is not None and number > rule.count:
                yield f"{row_of(row)}: the rule has {rule.count} firings"


def covers(record: Recorded) -> int:
    """Return the number of occurrences that a record covers; a SKIPPED record has the number in its detail."""
    return int(json.loads(record.detail or "{}").get("count", 1)) if record.intent == "SKIPPED" else 1


def skipped_before(steps: Iterable[tuple[int, object]], number: int) -> int:
    """Count the skipped occurrences below a number; skipped occurrences do not count as firings of the rule."""
    records = [it for _, it in steps if isinstance(it, Recorded) and it.intent == "SKIPPED" and it.occurrence < number]
    return sum(map(covers, records))


def rule_of(request: RequestHistory | None) -> Rule | None:
    """Read the rule of a request; None if the oracle does not support the rule."""
    return read_rule(request.timer.rule) if request and request.timer.rule else None


def planned_of(timer: TimerHistory) -> TimerWritten:
    """Find the row that the schedule planned, before a client moved the occurrence."""
    planned = None
    moved = {number for number, _ in timer.records("RESCHEDULED")}
    for number, change in timer.steps:
        if isinstance(change, TimerWritten) and not change.paused and (planned is None or number not in moved):
            planned = change
        if number in moved and planned is not None:
            break
    assert planned is not None, "a row of a schedule was inserted"
    return planned


def _agrees_with_rule(timer: TimerHistory, first: TimerWritten, rule: Rule) -> Iterator[str | None]:
    row = planned_of(timer)
    due = rule.due(first.due_date, row.occurrence)
    told = f"the due date is {clock(row.due_date)}, the oracle's date is {'none' if due is None else clock(due)}"
    yield None if row.due_date == due else f"{row_of(row)}: {told}"
    if not timer.records("RESCHEDULED"):
        for _, record in timer.records("TRIGGERED"):
            yield None if record.due_date == row.due_date else f"{record_of(record)}: {told}"
