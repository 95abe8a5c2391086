"""Measure whether Ray's cluster uses the lead: how long no shard has served, and how often the lead has lapsed.

units:   now_s in seconds of the monotonic clock
"""

from shardclock.backoff import Backoff

# an idle coordinator makes a pass each second; during a longer gap, Postgres was down or this process was paused
UNSEEN_S = 2.0
PAUSES = Backoff(
    10.0, 120.0
)  # the pauses for a coordinator that freezes and wakes repeatedly; a freeze of 15 s ends Ray's host
STEADY_S = 60.0  # a lead that lasts this long resets the count of lapses


class ServiceWatch:
    """Measure for how long the cluster that leads has had no living shard."""

    def __init__(self) -> None:
        self._served_s = self._looked_s = 0.0

    def learn(self, now_s: float, *, is_served: bool) -> float:
        """Record whether a shard lives; return for how long no shard has lived.

        During an outage of Postgres no shard can send a heartbeat, so this time does not count.
        """
        if is_served or now_s - self._looked_s > UNSEEN_S:
            self._served_s = now_s
        self._looked_s = now_s
        return now_s - self._served_s

    def forget(self) -> None:
        """Reset the time without a shard, because no keeper could report."""
        self._looked_s = 0.0


class Lapses:
    """Count how often Ray's cluster got the lead and then lost it.

    Each lapse after the first doubles the pause before the next offer.
    """

    def __init__(self) -> None:
        self._lapses = 0
        self._give_at_s = 0.0
        self._led_since_s: float | None = None

    def learn_lead(self, now_s: float) -> None:
        """Record that the other cluster leads."""
        self._led_since_s = self._led_since_s or now_s
        if now_s - self._led_since_s >= STEADY_S:
            self._lapses = 0

    def count(self, now_s: float) -> None:
        """Record that the lead has lapsed."""
        self._lapses += 1
        self._give_at_s = now_s + PAUSES.pause_s(self._lapses - 1)
        self._led_since_s = None

    def may_give(self, now_s: float) -> bool:
        """Return whether the lead may be given now."""
        return now_s >= self._give_at_s
