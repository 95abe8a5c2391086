"""Find silent keepers by their heartbeats, because Ray takes a minute to notice a frozen process or a cut network."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

# If the time between two checks is longer, the coordinator itself was paused, so no keeper counts as silent.
UNSEEN_S = 1.0


@dataclass(slots=True)
class _LastBeat:
    """The last heartbeat of one keeper: its time, and whether an earlier heartbeat of the keeper was known."""

    sign: datetime
    since_s: float
    heard: bool


class HeartbeatMonitor:
    """Measure, on the coordinator's clock, for how long each keeper has sent no new heartbeat.

    The time of a new heartbeat is the time of the check minus the heartbeat's age, which Postgres computes. This time
    is never earlier than the previous check, because the previous check did not find this heartbeat. So the interval
    between checks does not lengthen a silence, and an error of Postgres's clock shifts a heartbeat by at most one
    interval. The clocks of two machines are never compared.

    After an outage of Postgres, or a pause of the coordinator's machine, no keeper counts as silent. After an outage a
    silence starts `reconnect_s` later, because a keeper may wait this long before it tries to connect again.

    units:   now_s in seconds of the monotonic clock; ages_s in seconds of Postgres's clock
    """

    def __init__(self, *, reconnect_s: float) -> None:
        self._reconnect_s = reconnect_s
        self._is_after_outage = False
        self._seen: dict[str, _LastBeat] = {}
        self._looked_s: float | None = None

    def check(self, signs: Mapping[str, datetime], ages_s: Mapping[str, float], *, now_s: float) -> None:
        """Record the last heartbeat of each keeper, and the heartbeat's age."""
        unseen_s = 0.0 if self._looked_s is None else max(0.0, now_s - self._looked_s - UNSEEN_S)
        # After a pause of the coordinator, the times of earlier heartbeats are unknown.
        earliest_s = now_s if self._looked_s is None or unseen_s else self._looked_s
        connected_s = now_s + self._reconnect_s if self._is_after_outage else now_s
        seen: dict[str, _LastBeat] = {}
        for name, sign in signs.items():
            before = self._seen.get(name)
            if before is not None and before.sign == sign:
                seen[name] = _LastBeat(sign, before.since_s + unseen_s, before.heard)
            elif before is not None:
                seen[name] = _LastBeat(sign, min(max(now_s - ages_s[name], earliest_s), now_s), heard=True)
            else:
                seen[name] = _LastBeat(sign, connected_s, heard=False)
        self._seen, self._looked_s, self._is_after_outage = seen, now_s, False

    def silent(self, *, longer_than_s: float) -> set[str]:
        """Return the names of the keepers that were silent for longer than the limit at the last check."""
        looked_s = self._looked_s or 0.0
        return {name for name, seen in self._seen.items() if looked_s - seen.since_s > longer_than_s}

    def silent_in_s(self, *, longer_than_s: float, now_s: float) -> float:
        """Return the time until the next keeper counts as silent, if it sends no heartbeat.

        shape:   infinite if all keepers are silent already, or if there was no check in the last `UNSEEN_S`
        """
        looked_s = self._looked_s
        if looked_s is None or now_s - looked_s > UNSEEN_S:
            return math.inf
        ends_s = [seen.since_s + longer_than_s for seen in self._seen.values()]
        return max(0.0, min((end_s for end_s in ends_s if end_s >= looked_s), default=math.inf) - now_s)

    def unheard(self, names: Iterable[str]) -> set[str]:
        """Return the keepers among `names` that have sent no heartbeat since this coordinator began to watch them."""
        return {name for name in names if name not in self._seen or not self._seen[name].heard}

    def forget(self) -> None:
        """Forget all heartbeats, because Postgres did not answer, so no keeper could send a heartbeat."""
        self._seen.clear()
        self._looked_s, self._is_after_outage = None, True
