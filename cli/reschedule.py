"""The command that moves pending timers: to a moment, by a delay, by a shift, or to another rule."""

import secrets
from collections.abc import Mapping
from functools import partial
from typing import Annotated

import typer

from shardclock.api.changes import RESCHEDULED
from shardclock_server.cli.bulk import CHANGEABLE, Wording, change_many, states_of
from shardclock_server.cli.field_names import in_options
from shardclock_server.cli.lengths import read_length
from shardclock_server.cli.options import (
    All,
    At,
    Cron,
    Every,
    GivenRule,
    In,
    Key,
    MaybeTenant,
    MissedRuns,
    Name,
    State,
    Yes,
    Zone,
    option_names,
    rule_of,
)
from shardclock_server.cli.output import Json, print_note
from shardclock_server.cli.single import change_one
from shardclock_server.cli.timer_filter import NO_FILTER, filter_of, one_or_many, takes_filter
from shardclock_server.service.bulk_change import ChangeKind
from shardclock_server.service.filters import GivenFilter
from shardclock_server.service.moves import Destination, destination_of, move
from shardclock_server.service.operation_verbs import RESCHEDULE
from shardclock_server.sql.clients.search import TimerFilter
from shardclock_server.sql.clients.verbs import Shift, TimerRef
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import InvalidTimer, shortened

OPERATION_CHARS_MAX = 200
Shifted = Annotated[
    str | None,
    typer.Option(
        "--shift", metavar="LENGTH", help="A length, such as 1h or PT1H; -1d makes the due date earlier by a day."
    ),
]


@takes_filter
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
    state: State = None,
    given: GivenFilter = NO_FILTER,
    yes: Yes = False,
    operation: Annotated[
        str | None,
        typer.Option(
            "--operation",
            help="With --all: a name for this shift; a repeated command with this name moves no timer again.",
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Move a pending timer, or many with --shift; fail if a timer has fired already."""
    wanted = filter_of(tenant, given)
    which = one_or_many(timer_key, name, wanted, every=all_timers, state=state)
    called = option_names(rule := rule_of(every, cron))
    to = _destination(delay, at, shift, rule, zone, missed, called=called)
    if isinstance(which, TimerRef):
        if operation is not None:
            raise InvalidTimer("--operation goes with --all; the shift of one timer has no name")
        return change_one(which, partial(_move, to=to, called=called), RESCHEDULED, as_json=as_json)
    if not isinstance(to, Shift):
        raise InvalidTimer("use --shift for many timers; each timer moves relative to its own due date")
    return _shift_many(which, to, operation, states=states_of(state, CHANGEABLE), yes=yes, as_json=as_json)


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
    """Move a timer; replace field names by option names in a refusal from Postgres."""
    try:
        return await move(session, which, to)
    except InvalidTimer as refusal:
        raise InvalidTimer(in_options(str(refusal), called)) from None


def read_shift(text: str) -> str:
    """Read the length of --shift, with its sign.

    errors:  InvalidTimer  the text is not a length of time
    """
    sign, length = ("-", text[1:]) if text.startswith("-") else ("", text.removeprefix("+"))
    return f"{sign}{read_length('--shift', length, sign=sign)}"


def _shift_many(
    wanted: TimerFilter, by: Shift, operation: str | None, *, states: tuple[str, ...], yes: bool, as_json: bool
) -> int:
    if operation is None and yes:
        operation = secrets.token_hex(8)
        print_note(
            f"this shift has the name {operation}: repeat the command with --operation {operation}, so that no"
            f" timer moves twice"
        )
    if operation is not None and not 1 <= len(operation) <= OPERATION_CHARS_MAX:
        raise InvalidTimer(f"--operation {shortened(operation)} must have 1 to {OPERATION_CHARS_MAX} characters")
    change = ChangeKind(RESCHEDULE, states, {"shift": by.text, "operation": operation or ""})
    words = Wording(
        "move",
        "moved",
        again=f"repeat the same command with --operation {operation} for the rest",
        shown={"operation": operation},
    )
    return change_many(wanted, change, words, yes=yes, as_json=as_json)
