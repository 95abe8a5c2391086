"""Find the first delivery of a new endpoint soon, even among 100,000 endpoints.

A search reads the start of each lane. With 100,000 endpoints a search takes seconds, and the pause after a search is
ten times as long. Between searches this finder reads the deliveries that became due recently, and adds a few endpoints
of each tenant to the known lanes.
"""

from dataclasses import dataclass
from datetime import timedelta

from shardclock_server.sql.deliveries.claim import Position, find_due_lanes
from shardclock_server.sql.session import Session
from shardclock_server.workers.delivery_planner import DeliveryPlanner

GAP_S = 0.1
DELIVERIES_MAX = 2_000  # The largest number of deliveries that one read returns.
LANES_EACH_MAX = 20  # The limit of known lanes for each tenant; the planner knows 200 lanes in total.
OLD_S = 5.0  # After a longer pause, the finder reads only the newest rows, to limit the number of rows.


@dataclass(slots=True)
class LaneFinder:
    """Add new lanes to a planner while its searches are slow."""

    _planner: DeliveryPlanner
    _session: Session
    _behind: Position | None = None
    _next_at_s: float = float("-inf")
    pause_s: float = float("inf")  # the pause before the next read

    async def read(self, now_s: float) -> bool:
        """Read recent deliveries if the pause is over; return whether a new lane was found.

        errors:  StoreUnavailable  no answer before the timeout: call again
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
        return self._planner.add_lanes(found.lanes)
