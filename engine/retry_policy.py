"""Choose, for each kind of error, when and how often the engine retries a signal that it can't process."""

from typing import NamedTuple

from shardclock.backoff import Backoff
from shardclock.reason import reason_of
from shardclock_server.bpmn.step import StateTooNew
from shardclock_server.engine.definitions import Missing, ModelRefused
from shardclock_server.engine.inbox import UnknownKind
from shardclock_server.engine.tenant_quotas import QuotaExceeded
from shardclock_server.sql.session import StatementRefused, StoreTooSlow

TRIES_MAX, NEVER = 5, 2**31 - 1
RETRY_S = 0.5
SLOW = Backoff(1.0, 60.0)  # A slow statement is no reason to give up a signal, because the server may become faster.
TOO_NEW = (ModelRefused, UnknownKind, StateTooNew)  # A newer engine may be able to process the signal.
# With the pauses of SLOW, this number of tries takes two days, which is enough for an upgrade. After the last try the
# instance gets an incident.
TOO_NEW_TRIES_MAX = 2_885


class FamilyIsFull(Exception):
    """The number of running child instances below a root instance has reached the limit."""


class Deferral(NamedTuple):
    """The delay before a signal is retried, and the limit of its tries.

    units:   the next try is after `delay_s`; after `tries_max` tries the signal is given up
    """

    reason: str
    delay_s: float
    tries_max: int
    needs_newer_release: bool = False  # a newer engine may be able to process the signal
    is_logged: bool = True
    raises_incident: bool = False  # The instance has an incident while the signal waits.
    is_last_try: bool = False  # The engine gives up the signal, unless the instance can start with an incident.


def deferral_after(error: Exception, attempts: int) -> Deferral:
    """Choose the retry for an error of a signal that has failed `attempts` times before."""
    if isinstance(error, TOO_NEW):  # checked first, because some errors of TOO_NEW are also ValueErrors
        return Deferral(str(error), SLOW.pause_s(attempts + 1), TOO_NEW_TRIES_MAX, needs_newer_release=True)
    if isinstance(error, FamilyIsFull):
        return Deferral(str(error), 0.0, 1, is_logged=False)
    if isinstance(error, StoreTooSlow):
        return Deferral(str(error), SLOW.pause_s(attempts + 1), NEVER)
    if isinstance(error, QuotaExceeded):
        return Deferral(str(error), SLOW.pause_s(attempts + 1), NEVER, raises_incident=True)
    is_for_users = isinstance(error, ValueError | Missing | StatementRefused)
    reason = str(error) if is_for_users else reason_of(error)
    return Deferral(reason, RETRY_S, TRIES_MAX, is_last_try=attempts + 1 >= TRIES_MAX)
