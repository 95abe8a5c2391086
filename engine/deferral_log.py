"""Log deferred signals."""

from collections.abc import Mapping, Sequence

from structlog.typing import FilteringBoundLogger

from shardclock_server.engine.retry_policy import Deferral
from shardclock_server.sql.processes.signals import DueSignal

LOGGED_MAX = 1_000  # The log remembers at most this many reasons that it has already written.
NAMED_MAX = 10  # The largest number of signals or instances in one line.


class DeferralLog:
    """Log each signal that was given up; log each reason for a delay only once."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        self._log = log
        self._logged: set[str] = set()

    def record(self, deferral: Deferral, signals: Sequence[DueSignal], outcome: Mapping[int, bool]) -> None:
        """Log signals with the same delay; `outcome` has True for each signal that was given up."""
        if not deferral.is_logged:
            return
        if deferral.raises_incident:
            waiting = [it.instance_key for it in signals[:NAMED_MAX]]
            self._once(deferral.reason, "signals wait for a quota", instances=waiting)
            return
        if deferral.needs_newer_release:
            if given_up := sum(outcome.values()):
                self._logged.discard(deferral.reason)
            first = [it.timer_key for it in signals[:NAMED_MAX]]
            self._once(deferral.reason, "signals left to a newer engine", signals=first, given_up=given_up)
            return
        for it in signals:
            self._log.error(
                "signal refused",
                signal=it.timer_key,
                instance=it.instance_key,
                given_up=outcome.get(it.timer_key, False),
                error=deferral.reason,
            )

    def _once(self, reason: str, event: str, **fields: object) -> None:
        if reason in self._logged:
            return
        self._log.error(event, error=reason, **fields)
        if len(self._logged) >= LOGGED_MAX:
            self._logged.clear()
        self._logged.add(reason)
