"""The command that moves pending timers: to a moment, by a delay, by a shift, or to another rule."""

import secrets
from datetime import datetime
from functools import partial
from typing import Annotated

import typer

from cluster.cli.many import Change, change_many
from cluster.cli.one import Answers, change_one
from cluster.cli.options import (
    All,
    At,
    Cron,
    DueBefore,
    DueFrom,
    Every,
    In,
    Key,
    MaybeTenant,
    MissedRuns,
    Name,
    NamePrefix,
    ProcessInstance,
    Yes,
    Zone,
    clock_of,
    filter_of,
    one_or_many,
    rule_of,
)
from cluster.cli.output import Json, tell
from sql.history import Filter
from sql.session import Session, StoreUnavailable
from sql.status import read_clock
from sql.verbs import NewRule, Shift, Which, reschedule_timer, shift_timers
from timers.duration import Duration, parse_duration
from timers.moment import parse_due_date
from timers.refusal import InvalidTimer, shortened
from timers.schedule import Missed, first_of, parse_schedule

OPERATION_CHARS_MAX = 200
RESCHEDULED = Answers({"RESCHEDULED": "RESCHEDULED"})


def reschedule(
    timer_key: Key = None,
    delay: In = None,
    at: At = None,
    shift: Annotated[
        str | None, typer.Option("--shift", metavar="LENGTH", help="By a length, such as PT1H or, back, -P1D.")
    ] = None,
    every: Every = None,
    cron: Cron = None,
    zone: Zone = None,
    missed: MissedRuns = None,
    name: Name = None,
    tenant: MaybeTenant = None,
    all_timers: All = False,
    name_prefix: NamePrefix = None,
    due_from: DueFrom = None,
    due_before: DueBefore = None,
    process_instance: ProcessInstance = None,
    yes: Yes = False,
    operation: Annotated[
        str | None,
        typer.Option("--operation", help="With --all: names this shift; sent again under it, no timer moves twice."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Move a pending timer, or by --shift many; says so if it has fired already."""
    wanted = filter_of(tenant, name_prefix, due_from, due_before, process_instance)
    target = one_or_many(timer_key, name, wanted, every=all_timers)
    to = _destination(delay, at, shift, rule_of(every, cron), zone, missed)
    if isinstance(target, Which):
        if operation is not None:
            raise InvalidTimer("--operation goes with --all; one timer's shift has no name to be sent again under")
        return change_one(target, partial(_reschedule, to=to), RESCHEDULED, as_json=as_json)
    if not isinstance(to, Shift):
        raise InvalidTimer("many timers are moved by --shift only, each from its own due date")
    return _shift_many(target, to, operation, yes=yes, as_json=as_json)


def _destination(
    delay: str | None, at: str | None, shift: str | None, rule: str | None, zone: str | None, missed: str | None
) -> datetime | Duration | Shift | NewRule:
    if sum(given is not None for given in (delay, at, shift, rule)) != 1:
        raise InvalidTimer("say when: give exactly one of --in, --at, --shift and --every (or --cron)")
    if missed is not None and rule is None:
        raise InvalidTimer("--missed goes with --every or --cron; leave it out")
    if zone is not None and at is None and rule is None:
        raise InvalidTimer("--zone goes with --at, --every or --cron; a length is counted on the timer's own clock")
    if delay is not None:
        return parse_duration(delay)
    if at is not None:
        return parse_due_date(at, clock_of(zone))
    return _shift(shift) if shift is not None else _new_rule(rule or "", zone, missed)


def _shift(text: str) -> Shift:
    sign, length = ("-", text[1:]) if text.startswith("-") else ("", text.removeprefix("+"))
    try:
        return Shift(f"{sign}{parse_duration(length)}")
    except InvalidTimer:
        raise InvalidTimer(
            f"--shift {shortened(text)} is not a length to move timers by; write an ISO 8601 duration such as PT1H,"
            " or back -P1D"
        ) from None


def _new_rule(text: str, zone: str | None, missed: str | None) -> NewRule:
    if missed is not None and missed not in set(Missed):
        raise InvalidTimer(f"--missed {shortened(missed)} is unknown: use {', '.join(Missed)}")
    rule = parse_schedule(text, zone or "UTC")
    # A zone that nobody names stays as it is.
    named = zone is not None or "[" in text
    return NewRule(str(rule), rule.zone.key if named else None, missed)


async def _reschedule(session: Session, which: Which, to: datetime | Duration | Shift | NewRule) -> str:
    if isinstance(to, NewRule):
        # Else only the shard that plans it would find out that it never occurs.
        first_of(parse_schedule(to.schedule, to.zone or "UTC"), await read_clock(session))
    try:
        return await reschedule_timer(session, which, to)
    except StoreUnavailable as error:
        if isinstance(to, Shift):
            raise StoreUnavailable(f"{error}; `shardclock show` tells whether the timer was moved") from error
        raise


def _shift_many(wanted: Filter, by: Shift, operation: str | None, *, yes: bool, as_json: bool) -> int:
    if operation is None and yes:
        operation = secrets.token_hex(8)
        tell(f"this shift is --operation {operation}: sent again under it, no timer moves twice")
    if operation is not None and not 1 <= len(operation) <= OPERATION_CHARS_MAX:
        raise InvalidTimer(f"--operation {shortened(operation)} must have 1 to {OPERATION_CHARS_MAX} characters")
    change = Change(
        "move",
        "moved",
        ("PENDING", "PAUSED"),
        partial(shift_timers, by=by, operation=operation or ""),
        left="ended, have yet to be planned, or were moved under this operation before",
        again=f"the same command again with --operation {operation} does the rest",
        shown={"operation": operation},
    )
    return change_many(wanted, change, yes=yes, as_json=as_json)
