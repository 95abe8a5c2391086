"""The operators' command that changes a timer of a job or a process."""

from datetime import datetime
from functools import partial
from typing import Annotated

import typer

from shardclock.api.changes import OPERATED
from shardclock_server.cli.field_names import OPTIONS, in_options
from shardclock_server.cli.lengths import read_length
from shardclock_server.cli.options import (
    DEFAULT_TENANT,
    At,
    In,
    Key,
    MissedByPause,
    Name,
    Reason,
    Tenant,
    Zone,
    timer_ref_of,
)
from shardclock_server.cli.output import Json
from shardclock_server.cli.reschedule import Shifted, read_shift
from shardclock_server.cli.single import change_one
from shardclock_server.service.moves import operator_destination
from shardclock_server.sql.clients import verbs
from shardclock_server.sql.clients.verbs import Shift, TimerRef
from shardclock_server.sql.session import Session
from shardclock_server.timers.duration import Duration
from shardclock_server.timers.refusal import InvalidTimer
from shardclock_server.timers.schedule import MissedChoice, missed_choice_of


def operate(
    verb: Annotated[str, typer.Argument(metavar="VERB", help="pause, resume or reschedule.")],
    timer_key: Key = None,
    name: Name = None,
    tenant: Tenant = DEFAULT_TENANT,
    delay: In = None,
    at: At = None,
    shift: Shifted = None,
    zone: Zone = None,
    reason: Reason = None,
    missed: MissedByPause = None,
    as_json: Json = False,
) -> int:
    """Pause, resume or reschedule a timer of a job or a process; the other commands refuse these timers."""
    which = timer_ref_of(timer_key, name, tenant)
    given = {
        "delay": None if delay is None else str(read_length("--in", delay)),
        "due_date": at,
        "shift": None if shift is None else read_shift(shift),
        "zone": zone,
    }
    to = operator_destination(verb, given, called=OPTIONS)
    choice = missed_choice_of(missed, called="--missed")
    change = partial(_operate, verb=verb, to=to, reason=reason, missed=choice)
    return change_one(which, change, OPERATED[verb], as_json=as_json)


async def _operate(
    session: Session,
    which: TimerRef,
    *,
    verb: str,
    to: datetime | Duration | Shift | None,
    reason: str | None,
    missed: MissedChoice,
) -> str:
    """Change the timer; in a refusal from Postgres, replace the field's name by the option's."""
    try:
        return await verbs.change_system_timer(session, which, verb=verb, to=to, reason=reason, missed=missed)
    except InvalidTimer as refusal:
        raise InvalidTimer(in_options(str(refusal))) from None
