"""The operators' command for a timer of a job or a process."""

from functools import partial
from typing import Annotated

import typer

from shardclock.api.changes import OPERATED
from shardclock_server.cli.field_names import OPTIONS
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
    Until,
    Zone,
    pause_of,
    timer_ref_of,
)
from shardclock_server.cli.output import Json
from shardclock_server.cli.reschedule import Shifted, read_shift
from shardclock_server.cli.single import change_one
from shardclock_server.service import pauses
from shardclock_server.service.moves import operator_destination


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
    until: Until = None,
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
    change = partial(pauses.operate, verb=verb, to=to, asked=pause_of(until, missed, reason))
    return change_one(which, change, OPERATED[verb], as_json=as_json)
