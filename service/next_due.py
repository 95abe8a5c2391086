"""Compute a pending timer's next occurrences, under the assumption that each occurrence fires on time; no I/O."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from shardclock_server.sql.clients.history import UpcomingTimer
from shardclock_server.timers.occurrence import WITHOUT_END, ScheduledOccurrence, ScheduleRule
from shardclock_server.timers.preview import PreviewedOccurrence, preview_from
from shardclock_server.timers.schedule import Following, Missed, first_of, following, last_number, parse_schedule


@dataclass(frozen=True, slots=True)
class UpcomingOccurrences:
    """The next occurrence, the number of occurrences due by a moment, and the first occurrence after the moment."""

    next: ScheduledOccurrence
    due: int
    after: ScheduledOccurrence | None


def next_due_of(plan: UpcomingTimer, moment: datetime) -> UpcomingOccurrences:
    """Compute the next occurrences of a plan up to a moment.

    errors:  InvalidTimer  the rule can't be read, or never occurs: a shard will pause the timer
    """
    if plan.schedule is None:
        current = ScheduledOccurrence(plan.occurrence, plan.due_date, plan.due_date, plan.occurrence)
        return (
            UpcomingOccurrences(current, due=1, after=None)
            if current.due_date <= moment
            else UpcomingOccurrences(current, 0, current)
        )
    if plan.kept_due_date is not None:
        return _next_due_with_run(plan, plan.kept_due_date, moment)
    rule = parse_schedule(plan.schedule, plan.zone)
    current, last = _current_occurrence(rule, plan)
    if current.due_date > moment:
        return UpcomingOccurrences(current, due=0, after=current)
    # A client may have moved this occurrence so late that the regular dates of later occurrences come first. A shard
    # that fires the moved occurrence counts these later occurrences as missed, and `following` counts them in the same
    # way.
    step = _step(rule, current, plan, repetitions=last, now=current.due_date)
    second, last = step.next, last_number(last, step.skipped)
    if not step.fires and second is not None:
        return next_due_of(_after_skip(plan, second, last), moment)
    return _next_due_after(rule, current, second, last, moment)


def _next_due_after(
    rule: ScheduleRule,
    current: ScheduledOccurrence,
    second: ScheduledOccurrence | None,
    last: int,
    moment: datetime,
) -> UpcomingOccurrences:
    """Count the occurrences of a rule up to a moment; the current occurrence is the first."""
    if second is None or second.due_date > moment:
        return UpcomingOccurrences(current, due=1, after=second)
    more, after = rule.after(second, moment)
    if last == WITHOUT_END:
        return UpcomingOccurrences(current, 2 + more, after)
    return UpcomingOccurrences(
        current, 2 + min(more, last - second.number), after if after and after.number <= last else None
    )


def _next_due_with_run(plan: UpcomingTimer, kept_due_date: datetime, moment: datetime) -> UpcomingOccurrences:
    """Compute the next occurrences of a schedule for which `run-now` has requested a run before the regular date."""
    run = ScheduledOccurrence(plan.occurrence, plan.due_date, plan.due_date, plan.occurrence)
    if run.due_date > moment:
        return UpcomingOccurrences(run, due=0, after=run)
    ahead = next_due_of(_without_run(plan, kept_due_date), moment)
    return UpcomingOccurrences(run, 1 + ahead.due, ahead.after)


def count_missed(plan: UpcomingTimer, now: datetime) -> int:
    """Count the occurrences that a paused schedule would fire after a resume with `fire_all`.

    errors:  InvalidTimer  the rule can't be read, or never occurs: a shard will pause the timer
    """
    if plan.schedule is None:
        return 0
    if plan.kept_due_date is not None:
        run = int(plan.due_date < now)
        return run and run + count_missed(_without_run(plan, plan.kept_due_date), now)
    rule = parse_schedule(plan.schedule, plan.zone)
    current, last = _current_occurrence(rule, plan)
    if current.due_date >= now:
        return 0
    missed = 1 + rule.after(current, now - datetime.resolution).missed
    return missed if last == WITHOUT_END else min(missed, last - current.number + 1)


def last_missed(plan: UpcomingTimer, now: datetime) -> datetime | None:
    """Return the date of the last occurrence that `count_missed` counts; None: it counts no occurrence.

    errors:  InvalidTimer  as `count_missed`
    """
    if plan.schedule is None or not (missed := count_missed(plan, now)):
        return None
    if plan.kept_due_date is not None:
        return last_missed(_without_run(plan, plan.kept_due_date), now) or plan.due_date
    rule = parse_schedule(plan.schedule, plan.zone)
    current, _ = _current_occurrence(rule, plan)
    return current.due_date if missed == 1 else _date_of(rule, current, current.number + missed - 1, before=now)


def _date_of(rule: ScheduleRule, current: ScheduledOccurrence, number: int, *, before: datetime) -> datetime:
    """Find the date of a later occurrence by its number. Use bisection, because a rule is searched by moment."""
    # The search begins at the anchor, because a client may have moved the current occurrence to a date after the wanted
    # occurrence.
    begin, end, found = current.anchor, before, current
    while found.number < number and begin < end:
        middle = begin + (end - begin) / 2
        following_one = rule.after(current, middle).next
        if following_one is not None and following_one.number <= number:
            begin, found = following_one.due_date, following_one
        else:
            end = middle
    return found.due_date


def preview_of(plan: UpcomingTimer, schedule: str, now: datetime, *, count: int) -> list[PreviewedOccurrence]:
    """List the next occurrences of a schedule in local time, with a note at each change of daylight saving time.

    shape:   at most `count`, in order; occurrences that are skipped after a late firing are left out
    errors:  InvalidTimer  the rule can't be read, or never occurs: a shard will pause the timer
    """
    rule = parse_schedule(schedule, plan.zone)
    return list(islice(_iterate_preview(rule, plan, now, count=count), count))


def _iterate_preview(
    rule: ScheduleRule, plan: UpcomingTimer, now: datetime, *, count: int
) -> Iterator[PreviewedOccurrence]:
    if plan.kept_due_date is not None:
        run = ScheduledOccurrence(plan.occurrence, plan.due_date, plan.due_date, plan.occurrence)
        yield from preview_from(rule, run, since=min(now, plan.due_date), count=1)
        plan = _without_run(plan, plan.kept_due_date)
    current, last = _current_occurrence(rule, plan)
    fired_at = max(now, current.due_date)
    step = _step(rule, current, plan, repetitions=last, now=fired_at)
    if step.fires:
        yield from preview_from(rule, current, since=min(now, current.due_date), count=1)
    if step.next is not None:
        last = last_number(last, step.skipped)
        left = count if last == WITHOUT_END else min(count, last - step.next.number + 1)
        yield from preview_from(rule, step.next, since=current.due_date, count=left)


def _step(
    rule: ScheduleRule, current: ScheduledOccurrence, plan: UpcomingTimer, *, repetitions: int, now: datetime
) -> Following:
    """Decide, as a shard does, whether the current occurrence fires, and find the next occurrence."""
    missed, missed_before = Missed(plan.missed), plan.missed_before
    return following(rule, current, repetitions=repetitions, now=now, missed=missed, missed_before=missed_before)


def _after_skip(plan: UpcomingTimer, following_one: ScheduledOccurrence, last: int) -> UpcomingTimer:
    """Return the plan after a resume with `skip`: the next occurrence is the first occurrence after the resume."""
    number, due_date, anchor, anchor_number = following_one
    return replace(
        plan,
        due_date=due_date,
        occurrence=number,
        anchor=anchor,
        anchor_occurrence=anchor_number,
        repetitions=last,
        missed_before=None,
    )


def _without_run(plan: UpcomingTimer, due_date: datetime) -> UpcomingTimer:
    """Return the plan after the requested run: the next occurrence is the regular occurrence."""
    return replace(plan, due_date=due_date, kept_due_date=None, occurrence=plan.occurrence + 1)


def _current_occurrence(rule: ScheduleRule, plan: UpcomingTimer) -> tuple[ScheduledOccurrence, int]:
    """Return the next occurrence, and the number of the occurrence with which the schedule ends."""
    if plan.anchor_occurrence is not None and plan.anchor is not None:
        return ScheduledOccurrence(
            plan.occurrence, plan.due_date, plan.anchor, plan.anchor_occurrence
        ), plan.repetitions
    # A new schedule has no date, so compute the first date as a shard does.
    first = first_of(rule, plan.anchor or plan.due_date, number=plan.occurrence)
    return first, rule.repetitions if rule.repetitions == WITHOUT_END else plan.occurrence - 1 + rule.repetitions
