"""Measure for how long a leading cluster has had no running shard, and count how often Ray's cluster lost the lead.

units:   now_s in seconds of the monotonic clock
"""

from shardclock.backoff import Backoff

# An idle coordinator runs an iteration each second. If two iterations are further apart than this time, Postgres was
# down or this process was paused.
UNSEEN_S = 2.0
# The pauses before the lead is offered to Ray's cluster again. They limit the changes of the lead if Ray's coordinator
# repeatedly freezes and continues; only a freeze of 15 s or more ends the host of Ray.
PAUSES = Backoff(10.0, 120.0)
STEADY_S = 60.0  # If Ray's cluster leads for this long, its count of losses is reset.


class ServiceWatch:
    """Measure for how long the leading cluster has had no running shard."""

    def __init__(self) -> None:
        self._served_s = self._looked_s = 0.0

    def learn(self, now_s: float, *, is_served: bool) -> float:
        """Record whether a shard is running; return the time since a shard was last running.

        An outage of Postgres does not count, because no shard can send a heartbeat during the outage.
        """
        if is_served or now_s - self._looked_s > UNSEEN_S:
            self._served_s = now_s
        self._looked_s = now_s
        return now_s - self._served_s

    def forget(self) -> None:
        """Reset the time without a running shard, because no keeper could send a heartbeat."""
        self._looked_s = 0.0


class Lapses:
    """Count how often Ray's cluster got the lead and then lost it.

    From the second loss on, each loss doubles the pause before the next offer of the lead to Ray's cluster.
    """

    def __init__(self) -> None:
        self._lapses = 0
        self._give_at_s = 0.0
        self._led_since_s: float | None = None

    def learn_lead(self, now_s: float) -> None:
        """Record that Ray's cluster leads."""
        self._led_since_s = self._led_since_s or now_s
        if now_s - self._led_since_s >= STEADY_S:
            self._lapses = 0

    def count(self, now_s: float) -> None:
        """Record that Ray's cluster has lost the lead."""
        self._lapses += 1
        self._give_at_s = now_s + PAUSES.pause_s(self._lapses - 1)
        self._led_since_s = None

    def may_give(self, now_s: float) -> bool:
        """Return whether Ray's cluster may be given the lead now."""
        return now_s >= self._give_at_s
