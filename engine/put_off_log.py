"""Log why signals are put off: each refusal, and each reason to wait once."""

from collections.abc import Mapping, Sequence

from structlog.typing import FilteringBoundLogger

from shardclock_server.engine.putting_off import PutOff
from shardclock_server.sql.processes.signals import DueSignal

LOGGED_MAX = 1_000  # reasons of which it is known that they are in the log
NAMED_MAX = 10  # signals or instances in one line


class PutOffLog:
    """Keep which reasons to wait are in the log already."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        self._log = log
        self._logged: set[str] = set()

    def tell(self, how: PutOff, signals: Sequence[DueSignal], outcome: Mapping[int, bool]) -> None:
        """Log signals that were put off alike; `outcome` says of each whether it was given up."""
        if not how.is_logged:
            return
        if how.is_told:
            waiting = [it.instance_key for it in signals[:NAMED_MAX]]
            self._once(how.reason, "signals wait for room in a quota", instances=waiting)
            return
        if how.to_newer:
            if gone := sum(outcome.values()):
                self._logged.discard(how.reason)
            first = [it.timer_key for it in signals[:NAMED_MAX]]
            self._once(how.reason, "signals left to a newer engine", signals=first, given_up=gone)
            return
        for it in signals:
            self._log.error(
                "signal refused",
                signal=it.timer_key,
                instance=it.instance_key,
                given_up=outcome.get(it.timer_key, False),
                error=how.reason,
            )

    def _once(self, reason: str, event: str, **fields: object) -> None:
        if reason in self._logged:
            return
        self._log.error(event, error=reason, **fields)
        if len(self._logged) >= LOGGED_MAX:
            self._logged.clear()
        self._logged.add(reason)
