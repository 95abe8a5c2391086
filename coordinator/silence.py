"""Who is silent, and for how long: for frozen processes and cut networks, which Ray takes a minute to notice."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

# A look that comes later than this after the one before saw nothing in between: that counts for nobody.
UNSEEN_S = 1.0


@dataclass(slots=True)
class _Seen:
    """One sign of life: since when it is the last one, and whether there was another before it."""

    sign: datetime
    since_s: float
    heard: bool


class Silence:
    """Watch signs of life change, by the watcher's own clock.

    No two machines' clocks are compared, and time in which the watcher itself had no news counts for nobody: after
    an outage of Postgres, or a pause of the watcher's machine, nobody is silent for longer than a moment.

    units:   now_s in seconds of the monotonic clock
    """

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._looked_s: float | None = None

    def look(self, signs: Mapping[str, datetime], *, now_s: float) -> None:
        """Take note of everybody's last sign of life."""
        unseen_s = 0.0 if self._looked_s is None else max(0.0, now_s - self._looked_s - UNSEEN_S)
        seen: dict[str, _Seen] = {}
        for name, sign in signs.items():
            before = self._seen.get(name)
            if before is not None and before.sign == sign:
                seen[name] = _Seen(sign, before.since_s + unseen_s, before.heard)
            else:
                seen[name] = _Seen(sign, now_s, heard=before is not None)
        self._seen, self._looked_s = seen, now_s

    def longer_than(self, limit_s: float) -> set[str]:
        """Name those who had been silent for longer than the limit at the last look."""
        looked_s = self._looked_s or 0.0
        return {name for name, seen in self._seen.items() if looked_s - seen.since_s > limit_s}

    def unheard(self, names: Iterable[str]) -> set[str]:
        """Name those of them who have given no sign of life since the watch over them began."""
        return {name for name in names if name not in self._seen or not self._seen[name].heard}

    def forget(self) -> None:
        """Start over, because there was no news of anybody."""
        self._seen.clear()
        self._looked_s = None
