"""Where in the deliveries a worker's claims look: pure decisions, taken from what the last claims found.

What was settled stays in the index until vacuum removes it, and what is in hand lies before what waits. A claim that
began at a lane's soonest delivery would read past all of them, again and again. So most claims go on where the last one
ended. A full scan, now and then, finds what they can't see: lanes that are new, and deliveries that are free again.
"""

from dataclasses import dataclass, field, replace
from datetime import timedelta

from sql.deliveries.claim import BEGINNING, ClaimedDelivery, DeliveryScan, DeliveryScanResult, Lane, Position

# Full scans take at most a tenth of the time. They are short, unless many settled deliveries can't be removed.
FULL_SHARE, FULL_GAP_S = 0.1, 0.02
# A delivery is due when its firing begins, and is seen when that is committed: some milliseconds later. What is seen
# later than this is found by a full scan.
MARGIN_S = 0.3
LANES_MAX = 200  # of which a position is known; full scans alone read the others


@dataclass(slots=True)
class ClaimPlanner:
    """Choose which lanes the next claim reads, and from where on.

    units:   now_s in seconds of the monotonic clock
    """

    _positions: dict[Lane, Position] = field(default_factory=dict)  # the lane that was read last comes last
    _full_at_s: float = float("-inf")  # from then on the next full scan may begin
    _began_at_s: float = 0.0
    _is_full: bool = True
    _after: Lane = BEGINNING

    def plan(self, scan: DeliveryScan, *, now_s: float) -> DeliveryScan | None:
        """Complete a scan that begins now: a full one, or one of the lanes that are known; None if it would read none.

        `scan` says for which targets there are places, and how many.
        """
        self._began_at_s = now_s
        self._is_full = now_s >= self._full_at_s or self._after != BEGINNING
        if self._is_full:
            return replace(scan, after=self._after)
        known = {lane: position for lane, position in self._positions.items() if scan.has_places(lane)}
        return replace(scan, lanes=known) if known else None

    def learn(self, scan: DeliveryScan, taken: DeliveryScanResult, *, now_s: float) -> bool:
        """Learn what a scan has taken; say whether to scan again at once."""
        took_s = now_s - self._began_at_s
        self._after = taken.next
        if self._is_full and taken.next == BEGINNING:
            self._full_at_s = now_s + max(FULL_GAP_S, took_s / FULL_SHARE)
        self._remember(_ends_of(taken.claimed))
        if not taken.saturated:
            # Nothing is left: the next scan reads what fires from now on, and what was firing during this one.
            begin = Position(taken.server_time - timedelta(seconds=took_s + MARGIN_S), 0)
            self._remember({lane: begin for lane in self._positions if scan.has_places(lane)})
        return taken.next != BEGINNING or (taken.saturated and bool(taken.claimed))

    def pause_s(self, poll_s: float, *, now_s: float) -> float:
        """Return the pause until the next scan, unless a hint comes; what only a full one sees waits for that alone."""
        return poll_s if self._is_full else min(poll_s, max(0.0, self._full_at_s - now_s))

    def _remember(self, positions: dict[Lane, Position]) -> None:
        for lane, position in positions.items():
            self._positions.pop(lane, None)
            self._positions[lane] = position
        while len(self._positions) > LANES_MAX:
            del self._positions[next(iter(self._positions))]


def _ends_of(claimed: list[ClaimedDelivery]) -> dict[Lane, Position]:
    """Return where the reading of each lane has ended: at the last of its deliveries, which come in its order."""
    return {
        Lane(target, tenant_id): Position(next_attempt_at, timer_key)
        for (target, tenant_id), (next_attempt_at, timer_key) in {
            (it.target, it.tenant_id): (it.next_attempt_at, it.timer_key) for it in claimed
        }.items()
    }
