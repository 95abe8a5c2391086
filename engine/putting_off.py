"""How long a signal that can't be taken is put off, and after how many tries it is given up: its error decides."""

from typing import NamedTuple

from shardclock.backoff import Backoff
from shardclock_server.bpmn.step import StateTooNew
from shardclock_server.engine.definitions import Gone, ModelRefused
from shardclock_server.engine.inbox import UnknownKind
from shardclock_server.engine.quotas import NoRoom
from shardclock_server.keepers.loops import one_line
from shardclock_server.sql.session import StatementRefused, StoreTooSlow

TRIES_MAX, NEVER = 5, 2**31 - 1
RETRY_S = 0.5
SLOW = Backoff(1.0, 60.0)  # the server may be faster later, so what takes it too long is never given up
TOO_NEW = (ModelRefused, UnknownKind, StateTooNew)  # this release can't read it; a newer engine may
TOO_NEW_TRIES_MAX = 2_885  # with SLOW's pauses two days, in which an upgrade ends; then the instance has an incident


class FamilyIsFull(Exception):
    """As many called instances live below a root as may."""


class PutOff(NamedTuple):
    """What is to be done with a signal.

    units:   the next try comes after `delay_s`; there are `tries_max`, then it is given up
    """

    reason: str
    delay_s: float
    tries_max: int
    to_newer: bool = False  # a newer engine may take it
    is_logged: bool = True
    is_told: bool = False  # its instance has an incident while the signal waits
    is_last_try: bool = False  # the signal is given up unless its instance can begin with an incident


def put_off_after(error: Exception, attempts: int) -> PutOff:
    """Decide it from why a signal can't be taken, after so many failed attempts before this one."""
    if isinstance(error, TOO_NEW):  # some of these are ValueErrors, too
        return PutOff(str(error), SLOW.pause_s(attempts + 1), TOO_NEW_TRIES_MAX, to_newer=True)
    if isinstance(error, FamilyIsFull):
        return PutOff(str(error), 0.0, 1, is_logged=False)
    if isinstance(error, StoreTooSlow):
        return PutOff(str(error), SLOW.pause_s(attempts + 1), NEVER)
    if isinstance(error, NoRoom):
        return PutOff(str(error), SLOW.pause_s(attempts + 1), NEVER, is_told=True)
    is_for_users = isinstance(error, ValueError | Gone | StatementRefused)
    reason = str(error) if is_for_users else one_line(error)
    return PutOff(reason, RETRY_S, TRIES_MAX, is_last_try=attempts + 1 >= TRIES_MAX)
