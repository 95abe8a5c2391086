"""The command that moves pending timers: to a moment, by a delay, by a shift, or to another rule."""

import secrets
from datetime import datetime
from functools import partial
from typing import Annotated

import typer

from cli.bulk import Wording, change_many
from cli.lengths import read_length
from cli.options import (
    All,
    At,
    Cron,
    DueBefore,
    DueFrom,
    Every,
    GivenRule,
    In,
    Key,
    MaybeTenant,
    MissedRuns,
    Name,
    NamePrefix,
    OfTarget,
    ProcessInstance,
    Yes,
    Zone,
    clock_of,
    filter_of,
    moment_of,
    one_or_many,
    rule_of,
)
from cli.output import Json, tell
from cli.single import Outcomes, change_one
from service.bulk_change import Change
from sql.clients.history import Filter
from sql.clients.verbs import NewRule, Shift, TimerRef, reschedule_timer, shift_timers
from sql.metrics.status import read_clock
from sql.session import Session, StoreUnavailable
from timers.duration import Duration
from timers.refusal import InvalidTimer, shortened
from timers.schedule import Missed, first_of, parse_schedule

OPERATION_CHARS_MAX = 200
RESCHEDULED = Outcomes({"RESCHEDULED": "RESCHEDULED"}, shows_date=True)


def reschedule(
    timer_key: Key = None,
    delay: In = None,
    at: At = None,
    shift: Annotated[
        str | None,
        typer.Option("--shift", metavar="LENGTH", help="By a length, such as 1h or PT1H; -1d moves back by a day."),
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
    target: OfTarget = None,
    yes: Yes = False,
    operation: Annotated[
        str | None,
        typer.Option("--operation", help="With --all: names this shift; sent again with it, no timer moves twice."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Move a pending timer, or with --shift many; if a timer has fired already, say so."""
    wanted = filter_of(tenant, name_prefix, due_from, due_before, process_instance, target=target)
    which = one_or_many(timer_key, name, wanted, every=all_timers)
    to = _destination(delay, at, shift, rule_of(every, cron), zone, missed)
    if isinstance(which, TimerRef):
        if operation is not None:
            raise InvalidTimer("--operation goes with --all; the shift of one timer has no name")
        return change_one(which, partial(_reschedule, to=to), RESCHEDULED, as_json=as_json)
    if not isinstance(to, Shift):
        raise InvalidTimer("many timers are moved by --shift only, each from its own due date")
    return _shift_many(which, to, operation, yes=yes, as_json=as_json)


def _destination(
    delay: str | None, at: str | None, shift: str | None, rule: GivenRule | None, zone: str | None, missed: str | None
) -> datetime | Duration | Shift | NewRule:
    if sum(given is not None for given in (delay, at, shift, rule)) != 1:
        raise InvalidTimer("say when: give exactly one of --in, --at, --shift and --every (or --cron)")
    if missed is not None and rule is None:
        raise InvalidTimer("--missed goes with --every or --cron; leave it out")
    if zone is not None and at is None and rule is None:
        raise InvalidTimer("--zone goes with --at, --every or --cron; a length is counted on the timer's own clock")
    if delay is not None:
        return read_length("--in", delay)
    if at is not None:
        return moment_of("--at", at, clock_of(zone))
    if shift is not None:
        return _shift(shift)
    assert rule is not None, "one of the four is given"
    return _new_rule(rule, zone, missed)


def _shift(text: str) -> Shift:
    sign, length = ("-", text[1:]) if text.startswith("-") else ("", text.removeprefix("+"))
    return Shift(f"{sign}{read_length('--shift', length, sign=sign)}")


def _new_rule(given: GivenRule, zone: str | None, missed: str | None) -> NewRule:
    if missed is not None and missed not in set(Missed):
        raise InvalidTimer(f"--missed {shortened(missed)} is unknown: use {', '.join(Missed)}")
    clock = clock_of(zone)
    try:
        rule = parse_schedule(given.text, clock.key if clock else "UTC")
    except InvalidTimer as refusal:
        raise InvalidTimer(f"{given.option} {refusal}") from None
    # If no zone is named, the timer keeps its own.
    named = zone is not None or "[" in given.text
    return NewRule(given.text, rule.zone.key if named else None, missed)


async def _reschedule(session: Session, which: TimerRef, to: datetime | Duration | Shift | NewRule) -> str:
    if isinstance(to, NewRule):
        # Refuse a rule that never occurs here; otherwise only the shard that plans it would find out.
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
        tell(f"this shift is --operation {operation}: sent again with it, no timer moves twice")
    if operation is not None and not 1 <= len(operation) <= OPERATION_CHARS_MAX:
        raise InvalidTimer(f"--operation {shortened(operation)} must have 1 to {OPERATION_CHARS_MAX} characters")
    change = Change(("PENDING", "PAUSED"), partial(shift_timers, by=by, operation=operation or ""))
    words = Wording(
        "move",
        "moved",
        left="ended, have yet to be planned, or were moved under this operation before",
        again=f"the same command again with --operation {operation} does the rest",
        shown={"operation": operation},
    )
    return change_many(wanted, change, words, yes=yes, as_json=as_json)
