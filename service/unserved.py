"""Describe handlers with waiting deliveries that no running worker has in its app."""

from collections.abc import Sequence

from shardclock_server.service.wording import counted
from shardclock_server.sql.deliveries.handlers import COUNTED_MAX, UnservedHandler

SHOWN_MAX = 5
WAY_OUT = "no running worker has the app of this handler: start one with `shardclock up --app MODULE`"


def line_of(unserved: Sequence[UnservedHandler]) -> str:
    """Write the way out, then the first handlers with their numbers of waiting deliveries.

    shape:   one line; '' without a handler
    """
    if not unserved:
        return ""
    shown = ", ".join(f"{it.target} has {_waiting(it.waiting)}" for it in unserved[:SHOWN_MAX])
    more = f", and {len(unserved) - SHOWN_MAX} more handlers" if len(unserved) > SHOWN_MAX else ""
    return f"{WAY_OUT} ({shown}{more})"


def _waiting(number: int) -> str:
    return (
        f"{number:,} or more waiting deliveries"
        if number >= COUNTED_MAX
        else counted(number, "waiting delivery", "waiting deliveries")
    )
