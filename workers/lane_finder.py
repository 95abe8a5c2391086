"""Find an endpoint's first delivery soon, however many endpoints there are.

A search has a probe for each lane: with 100,000 endpoints of one tenant it takes seconds, and comes again after ten
times as long. Meanwhile this finder reads the deliveries that have become due lately, in their order. Of one tenant it
takes a few endpoints at a time, so that those of others find a place among the lanes that are known; the search finds
the rest.
"""

from dataclasses import dataclass
from datetime import timedelta

from shardclock_server.sql.deliveries.claim import Position, find_due_lanes
from shardclock_server.sql.session import Session
from shardclock_server.workers.claim_planner import ClaimPlanner

GAP_S = 0.1
DELIVERIES_MAX = 2_000  # read at once
LANES_EACH_MAX = 20  # of one tenant, of the 200 lanes that are known
OLD_S = 5.0  # behind a reading that was longer ago the next one would read too much


@dataclass(slots=True)
class LaneFinder:
    """Tell a planner of lanes that it does not know, while its searches are slow."""

    _planner: ClaimPlanner
    _session: Session
    _behind: Position | None = None
    _next_at_s: float = float("-inf")
    pause_s: float = float("inf")  # until it is to look again

    async def look(self, now_s: float) -> bool:
        """Look, if it is time to; say whether a lane was found that was not known.

        errors:  StoreUnavailable  no answer in time: look again
        """
        if not self._planner.searches_slowly:
            self.pause_s = float("inf")
            return False
        self.pause_s = max(0.0, self._next_at_s - now_s)
        if self.pause_s:
            return False
        behind = self._behind if now_s < self._next_at_s + OLD_S else None
        found = await find_due_lanes(self._session, behind, deliveries=DELIVERIES_MAX, each=LANES_EACH_MAX)
        self.pause_s = GAP_S if found.more is None else 0.0
        self._next_at_s = now_s + self.pause_s
        self._behind = found.more or Position(found.at - timedelta(seconds=self._planner.margin_s), 0)
        return self._planner.meet(found.lanes)
