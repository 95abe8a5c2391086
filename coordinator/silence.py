"""Who has been silent for too long: for frozen nodes and cut networks, which Ray takes a minute to notice."""

from collections.abc import Mapping
from datetime import datetime


class Silence:
    """Watch signs of life change, by the watcher's own clock.

    No two machines' clocks are compared, and time in which the watcher itself had no news counts for nobody: after
    an outage of Postgres everyone gets the whole interval again.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._seen: dict[str, tuple[datetime, float]] = {}

    def of(self, signs: Mapping[str, datetime], *, now_s: float) -> set[str]:
        """Name those whose last sign of life has not changed for longer than the limit.

        units:   now_s in seconds of the monotonic clock
        """
        self._seen = {
            name: (sign, self._seen[name][1] if self._seen.get(name, (None,))[0] == sign else now_s)
            for name, sign in signs.items()
        }
        return {name for name, (_, since) in self._seen.items() if now_s - since > self._limit_s}

    def forget(self) -> None:
        """Start over, because there was no news of anybody."""
        self._seen.clear()
