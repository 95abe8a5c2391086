"""A growing pause before the next start of actors, after starts have failed."""

from collections.abc import Iterable

from shardclock.backoff import Backoff

STARTING_S = 5.0  # an actor that dies within this time has failed to start
PAUSE_MAX_S = 30.0
PAUSES = Backoff(2.0, PAUSE_MAX_S)


class SpawnBackoff:
    """Count the consecutive failed starts of actors, and pause longer after each failure.

    `SpawnBackoff` is for starts that fail on all nodes; `Quarantine` is for starts that fail on one node.

    units:   now_s in seconds of the monotonic clock
    """

    def __init__(self) -> None:
        self._failed_starts = 0
        self._spawn_at_s = 0.0

    def learn_ages(self, ages_s: Iterable[float], *, now_s: float) -> None:
        """Count a failed start for each ended actor younger than `STARTING_S`; an older actor resets the count.

        shape:   `ages_s` are the ages of the actors at their end
        """
        for age_s in ages_s:
            self._failed_starts = self._failed_starts + 1 if age_s < STARTING_S else 0
            if self._failed_starts > 1:  # a single failure causes no pause, because it may have a passing cause
                self._spawn_at_s = now_s + PAUSES.pause_s(self._failed_starts - 1)

    def may_spawn(self, *, now_s: float) -> bool:
        """Return whether new actors may be started now."""
        return now_s >= self._spawn_at_s


class StartWatch:
    """Measure for how long starts of actors have failed while no keeper runs.

    units:   now_s in seconds of the monotonic clock
    """

    def __init__(self) -> None:
        self._since_s: float | None = None

    def learn(self, *, given_up: bool, has_keepers: bool, now_s: float) -> None:
        """Record whether the coordinator has abandoned a start, and whether a keeper is running."""
        if has_keepers:
            self._since_s = None
        elif given_up and self._since_s is None:
            self._since_s = now_s

    def failing_s(self, *, now_s: float) -> float:
        """Return the time since the first failed start; 0 if no start has failed since a keeper last ran."""
        return 0.0 if self._since_s is None else now_s - self._since_s
