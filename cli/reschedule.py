"""The command that moves pending timers: to a moment, by a delay, by a shift, or to another rule."""

import secrets
from collections.abc import Mapping
from functools import partial
from typing import Annotated

import typer

from shardclock.api.changes import RESCHEDULED
from shardclock_server.cli.bulk import Wording, change_many
from shardclock_server.cli.field_names import in_options
from shardclock_server.cli.lengths import read_length
from shardclock_server.cli.options import (
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
    called_of,
    filter_of,
    one_or_many,
    rule_of,
)
from shardclock_server.cli.output import Json, tell
from shardclock_server.cli.single import change_one
from shardclock_server.service.bulk_change import Change
from shardclock_server.service.moves import Destination, destination_of, move
from shardclock_server.sql.clients.history import Filter
from shardclock_server.sql.clients.verbs import Shift, TimerRef, shift_timers
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import InvalidTimer, shortened

OPERATION_CHARS_MAX = 200
Shifted = Annotated[
    str | None,
    typer.Option("--shift", metavar="LENGTH", help="By a length, such as 1h or PT1H; -1d moves back by a day."),
]


def reschedule(
    timer_key: Key = None,
    delay: In = None,
    at: At = None,
    shift: Shifted = None,
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
    called = called_of(rule := rule_of(every, cron))
    to = _destination(delay, at, shift, rule, zone, missed, called=called)
    if isinstance(which, TimerRef):
        if operation is not None:
            raise InvalidTimer("--operation goes with --all; the shift of one timer has no name")
        return change_one(which, partial(_move, to=to, called=called), RESCHEDULED, as_json=as_json)
    if not isinstance(to, Shift):
        raise InvalidTimer("many timers are moved by --shift only, each from its own due date")
    return _shift_many(which, to, operation, yes=yes, as_json=as_json)


def _destination(
    delay: str | None,
    at: str | None,
    shift: str | None,
    rule: GivenRule | None,
    zone: str | None,
    missed: str | None,
    *,
    called: Mapping[str, str],
) -> Destination:
    given = {
        "delay": None if delay is None else str(read_length("--in", delay)),
        "due_date": at,
        "shift": None if shift is None else read_shift(shift),
        "schedule": rule and rule.text,
        "zone": zone,
        "missed": missed,
    }
    return destination_of(given, called=called)


async def _move(session: Session, which: TimerRef, *, to: Destination, called: Mapping[str, str]) -> str:
    """Move a timer; what only Postgres's clock refuses is called by its option, too."""
    try:
        return await move(session, which, to)
    except InvalidTimer as refusal:
        raise InvalidTimer(in_options(str(refusal), called)) from None


def read_shift(text: str) -> str:
    """Read the length of --shift, with its sign.

    errors:  InvalidTimer  it is none
    """
    sign, length = ("-", text[1:]) if text.startswith("-") else ("", text.removeprefix("+"))
    return f"{sign}{read_length('--shift', length, sign=sign)}"


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
