"""What went wrong lately, so that new actors are not put where, or as fast as, the last ones failed."""

from collections.abc import Iterable

SUSPECT_S = 30.0  # Ray lists a node that died for up to this long as alive
STARTING_S = 5.0  # an actor that dies this soon has failed to start
PAUSE_MAX_S = 30.0


class Caution:
    """Remember the nodes whose actors could not be reached, and how many starts have failed in a row.

    units:   now_s in seconds of the monotonic clock
    """

    def __init__(self) -> None:
        self._suspects: dict[str, float] = {}
        self._failed_starts = 0
        self._spawn_at = 0.0

    def suspect(self, node_id: str, *, now_s: float) -> None:
        """Take note of an actor that Ray could not reach: its node may be gone, long before Ray says so."""
        self._suspects[node_id] = now_s + SUSPECT_S

    def suspects(self, *, now_s: float) -> frozenset[str]:
        """Name the nodes that no new actor should be put on."""
        self._suspects = {node_id: until for node_id, until in self._suspects.items() if until > now_s}
        return frozenset(self._suspects)

    def learn_ages(self, ages_s: Iterable[float], *, now_s: float) -> None:
        """Take note of how old the actors were that have died."""
        for age_s in ages_s:
            self._failed_starts = self._failed_starts + 1 if age_s < STARTING_S else 0
            if self._failed_starts > 1:  # the first may have met with an accident
                self._spawn_at = now_s + min(2.0 ** (self._failed_starts - 1), PAUSE_MAX_S)

    def pardon(self) -> None:
        """Let actors be started at once again: what made them fail is over."""
        self._failed_starts, self._spawn_at = 0, 0.0

    def may_spawn(self, *, now_s: float) -> bool:
        """Say whether new actors may be started now."""
        return now_s >= self._spawn_at
