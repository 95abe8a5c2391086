"""Describe handlers and jobs with waiting deliveries that no running worker has in its app."""

from collections.abc import Sequence

from shardclock_server.service.wording import counted
from shardclock_server.sql.deliveries.unserved import COUNTED_MAX, UnservedTarget
from shardclock_server.sql.jobs.declare import TARGET_OF_JOB

SHOWN_MAX = 5
WAY_OUT = "no running worker has the app of these targets: start one with `shardclock up --app MODULE`"
DELIVERIES, STARTS = ("waiting delivery", "waiting deliveries"), ("waiting start", "waiting starts")


def line_of(unserved: Sequence[UnservedTarget]) -> str:
    """Write the advice, and then the first targets with their numbers of waiting deliveries.

    shape:   one line; '' without a target
    """
    if not unserved:
        return ""
    shown = ", ".join(f"{it.target} has {_waiting(it)}" for it in unserved[:SHOWN_MAX])
    more = f", and {len(unserved) - SHOWN_MAX} more targets" if len(unserved) > SHOWN_MAX else ""
    return f"{WAY_OUT} ({shown}{more})"


def _waiting(it: UnservedTarget) -> str:
    one, many = STARTS if it.target.startswith(TARGET_OF_JOB) else DELIVERIES
    return f"{it.waiting:,} or more {many}" if it.waiting >= COUNTED_MAX else counted(it.waiting, one, many)
