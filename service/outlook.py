"""What a pending timer will do, if each occurrence fires on time: pure decisions."""

from dataclasses import dataclass, replace
from datetime import datetime

from shardclock_server.sql.clients.history import UpcomingTimer
from shardclock_server.timers.occurrence import WITHOUT_END, Occurrence, Rule
from shardclock_server.timers.schedule import Missed, first_of, following, last_number, parse_schedule


@dataclass(frozen=True, slots=True)
class Outlook:
    """The next occurrence; how many are due by a moment, the next included; the first one after that moment, if any."""

    next: Occurrence
    due: int
    after: Occurrence | None


def outlook_of(plan: UpcomingTimer, moment: datetime) -> Outlook:
    """Compute the outlook of a plan up to a moment.

    errors:  InvalidTimer  its rule can't be read, or never occurs: a shard will pause the timer
    """
    if plan.schedule is None:
        current = Occurrence(plan.occurrence, plan.due_date, plan.due_date, plan.occurrence)
        return Outlook(current, due=1, after=None) if current.due_date <= moment else Outlook(current, 0, current)
    if plan.kept_due_date is not None:
        return _outlook_of_the_run(plan, plan.kept_due_date, moment)
    rule = parse_schedule(plan.schedule, plan.zone)
    current, last = _place(rule, plan)
    if current.due_date > moment:
        return Outlook(current, due=0, after=current)
    # A client may have moved this occurrence past later ones, which then count as missed: decide about them as a shard
    # does when it fires this one.
    step = following(rule, current, repetitions=last, now=current.due_date, missed=Missed(plan.missed))
    second, last = step.next, last_number(last, step.skipped)
    if second is None or second.due_date > moment:
        return Outlook(current, due=1, after=second)
    more, after = rule.after(second, moment)
    if last == WITHOUT_END:
        return Outlook(current, 2 + more, after)
    return Outlook(current, 2 + min(more, last - second.number), after if after and after.number <= last else None)


def _outlook_of_the_run(plan: UpcomingTimer, kept_due_date: datetime, moment: datetime) -> Outlook:
    """Compute a schedule's outlook if its next firing is an extra run."""
    run = Occurrence(plan.occurrence, plan.due_date, plan.due_date, plan.occurrence)
    if run.due_date > moment:
        return Outlook(run, due=0, after=run)
    ahead = outlook_of(_after_the_run(plan, kept_due_date), moment)
    return Outlook(run, 1 + ahead.due, ahead.after)


def _after_the_run(plan: UpcomingTimer, due_date: datetime) -> UpcomingTimer:
    """Return the plan after an extra run (`run-now`): the kept occurrence takes the run's place."""
    return replace(plan, due_date=due_date, kept_due_date=None, occurrence=plan.occurrence + 1)


def _place(rule: Rule, plan: UpcomingTimer) -> tuple[Occurrence, int]:
    """Find the next occurrence, and the number of the schedule's last one."""
    if plan.anchor_occurrence is not None and plan.anchor is not None:
        return Occurrence(plan.occurrence, plan.due_date, plan.anchor, plan.anchor_occurrence), plan.repetitions
    # It has no date yet: plan it as a shard will.
    first = first_of(rule, plan.anchor or plan.due_date, number=plan.occurrence)
    return first, rule.repetitions if rule.repetitions == WITHOUT_END else plan.occurrence - 1 + rule.repetitions
