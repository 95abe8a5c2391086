"""Choose the positions at which a worker's claims begin to read.

The decisions are pure, and use the results of the last claims.

A claim in a known lane starts after the last row that the previous claim read. In the index, two kinds of rows precede
the waiting deliveries of a lane: settled deliveries that vacuum has not removed, and leased deliveries. A search reads
every lane from the start, to find new lanes and deliveries with expired leases. A search takes long if vacuum can't
remove settled deliveries.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from shardclock_server.sql.deliveries.claim import (
    BEGINNING,
    ClaimedDelivery,
    DeliveryScan,
    DeliveryScanResult,
    Lane,
    Position,
)

SEARCH_SHARE, SEARCH_GAP_S = 0.1, 0.02  # Searches take at most a tenth of the time.
# A delivery is due when its firing starts, but it is visible only after the firing's commit. The commit is milliseconds
# later, or a second later if thousands of timers fire together. So a delivery may become visible at a position in the
# index that claims have already passed, and claims would miss it. When a claim reaches the end of a lane, the position
# therefore moves back by a margin. The margin grows with the duration of recent firings. A search finds the deliveries
# that become visible even later.
MARGIN_S, FIRINGS_LONGER, MARGIN_MAX_S = 0.3, 2.0, 5.0
FIRINGS_KEPT_S = 5.0  # The time for which the duration of a slow firing is remembered.
# If several claims did not read a lane to its end, the next position is the start of the first of these claims, but at
# most this long before the current claim; in both cases minus the margin.
READING_MAX_S = 5.0
# While deliveries arrive, known lanes are read after a short pause, because a notification for each delivery would cost
# more. Without deliveries the pause grows.
BUSY_PAUSE_S, PAUSE_MAX_S = 0.004, 1.0
# The pause after a longer search is ten times its duration; the lane finder reads new lanes during the pause.
SLOW_SEARCH_S = 0.05
# Without deliveries, pauses are longer by this factor, because a notification or a hand-over announces the next
# delivery.
IDLE_POLLS = 5
LANES_MAX = 200  # the limit of lanes with a known position; searches read all other lanes


@dataclass(slots=True)
class SlowestFiring:
    """The longest time between the start and the commit of a recent firing; each claimed delivery contains both times.

    units:   seconds; `now_s` is read from the monotonic clock, `now` is Postgres's time
    """

    _took_s: float = 0.0
    _at_s: float = float("-inf")

    def record(self, claimed: Sequence[ClaimedDelivery], *, now: datetime, now_s: float) -> None:
        """Update the longest time from the start of a recent firing to the insert of the firing's delivery."""
        since = now - timedelta(seconds=FIRINGS_KEPT_S)
        # After a failed attempt `next_attempt_at` is later than the firing, so the difference is negative.
        took = max((it.fired_at - it.next_attempt_at for it in claimed if it.fired_at > since), default=timedelta())
        took_s = took.total_seconds()
        if took_s >= self._took_s or now_s > self._at_s + FIRINGS_KEPT_S:
            self._took_s, self._at_s = max(0.0, took_s), now_s

    @property
    def margin_s(self) -> float:
        """Return for how long after the start of a firing a read can miss the deliveries of the firing."""
        return min(MARGIN_S + FIRINGS_LONGER * self._took_s, MARGIN_MAX_S)


@dataclass(slots=True)
class DeliveryPlanner:
    """Choose the lanes and positions of the next claim, and the time of the next search.

    shape:   soon     ends the pause before a claim
             is_full  a target has no free capacity
             is_idle  the last search found no delivery, and no delivery has arrived since the search
    units:   now_s, began_s and ended_s are in seconds of the monotonic clock
    """

    soon: asyncio.Event = field(default_factory=asyncio.Event)
    is_full: bool = False
    is_idle: bool = False
    _positions: dict[Lane, Position] = field(default_factory=dict)  # in the order in which the lanes were last read
    _pause_s: float = BUSY_PAUSE_S
    _search_at_s: float = float("-inf")
    _after: Lane = BEGINNING  # The lane after which the search continues.
    _searched_s: float = 0.0  # The duration of the current search until now.
    _last_search_s: float = 0.0  # The duration of the previous search.
    # Keys: lanes. Values: the time of the first claim since the lane was last read to its end.
    _reading_since: dict[Lane, datetime] = field(default_factory=dict)
    _firings: SlowestFiring = field(default_factory=SlowestFiring)
    _caught_up: set[str] = field(default_factory=set)  # targets without a due delivery after the last claim

    def scan_of_known_lanes(self, scan: DeliveryScan) -> DeliveryScan | None:
        """Add to a scan the known lanes that have free capacity; return None if there is no such lane."""
        known = {lane: position for lane, position in self._positions.items() if scan.has_places(lane)}
        return replace(scan, lanes=known) if known else None

    def poll_s(self, busy_s: float) -> float:
        """Return the longest pause between two claims if no notification comes.

        While deliveries arrive, this pause is `busy_s`.
        """
        return IDLE_POLLS * busy_s if self.is_idle else busy_s

    def pause_s(self, busy_s: float) -> float:
        """Return the pause before the next read of the known lanes if no notification comes."""
        return min(self._pause_s, self.poll_s(busy_s))

    def search(self, scan: DeliveryScan) -> DeliveryScan:
        """Return a scan that reads the next section of the search."""
        return replace(scan, after=self._after)

    @property
    def is_searching(self) -> bool:
        """Return whether a search is unfinished; then its next section is read without a pause."""
        return self._after != BEGINNING

    def search_pause_s(self, now_s: float) -> float:
        """Return the seconds until the next search may begin."""
        return max(0.0, self._search_at_s - now_s)

    @property
    def searches_slowly(self) -> bool:
        """Return whether searches take so long that they find new lanes late."""
        return max(self._searched_s, self._last_search_s) > SLOW_SEARCH_S

    @property
    def margin_s(self) -> float:
        """Return for how long after the start of a firing a read can miss the deliveries of the firing."""
        return self._firings.margin_s

    def add_lanes(self, lanes: Mapping[Lane, Position]) -> bool:
        """Add lanes, which the next claim reads; return whether any lane is new."""
        new = {lane: position for lane, position in lanes.items() if lane not in self._positions}
        self._remember(new)
        return bool(new)

    def record(self, scan: DeliveryScan, taken: DeliveryScanResult, *, began_s: float, ended_s: float) -> bool:
        """Record the result of a scan; return whether the next scan should follow immediately."""
        took_s = ended_s - began_s
        if taken.claimed:
            self._pause_s = BUSY_PAUSE_S
        elif scan.lanes is not None:
            self._pause_s = min(2 * self._pause_s, PAUSE_MAX_S)
        if scan.lanes is None:
            self.is_idle = taken.is_empty
            self._after = taken.next
            self._end_search(took_s, ended_s)
        self._remember(_ends_of(taken.claimed))
        if taken.saturated:
            self._caught_up.difference_update(it.target for it in taken.claimed)
        else:
            self._caught_up.update(scan.targets)
        self._firings.record(taken.claimed, now=taken.server_time, now_s=ended_s)
        is_whole = scan.lanes is not None or (scan.after == BEGINNING and taken.next == BEGINNING)
        began = taken.server_time - timedelta(seconds=took_s)
        self._end_reading(scan, began, has_ended=is_whole and not taken.saturated)
        return taken.next != BEGINNING or (taken.saturated and bool(taken.claimed))

    def is_behind(self, target: str) -> bool:
        """Return whether deliveries of a target may be waiting: its last claim was full, or there was no claim."""
        return target not in self._caught_up

    def move_back_to(self, deliveries: Sequence[ClaimedDelivery]) -> None:
        """Move the positions back to deliveries that were claimed and released without a call."""
        for it in deliveries:
            lane, before = Lane(it.target, it.tenant_id), Position(it.next_attempt_at, it.timer_key - 1)
            self._remember({lane: min(before, self._positions.get(lane, before))})
        self.soon.set()

    def free_places(self) -> None:
        """Claim soon if a target had no free capacity; the caller has ended calls, so capacity is free now."""
        if self.is_full:
            self.soon.set()

    def fail_search(self, *, began_s: float, ended_s: float) -> None:
        """Record that a search got no answer. The next search starts at the beginning, after the usual pause."""
        self._after = BEGINNING
        self._end_search(ended_s - began_s, ended_s)

    def _end_reading(self, scan: DeliveryScan, began: datetime, *, has_ended: bool) -> None:
        """Set the position of the next claim for each lane that was read to its end."""
        margin, longest = timedelta(seconds=self._firings.margin_s), timedelta(seconds=READING_MAX_S)
        for lane in [lane for lane in self._positions if scan.has_places(lane)]:
            since = self._reading_since.setdefault(lane, began)
            if has_ended:
                self._remember({lane: Position(max(since, began - longest) - margin, 0)})
                del self._reading_since[lane]

    def _end_search(self, took_s: float, ended_s: float) -> None:
        self._searched_s += took_s
        if self._after == BEGINNING:
            self._search_at_s = ended_s + max(SEARCH_GAP_S, self._searched_s / SEARCH_SHARE)
            self._last_search_s, self._searched_s = self._searched_s, 0.0

    def _remember(self, positions: dict[Lane, Position]) -> None:
        for lane, position in positions.items():
            self._positions.pop(lane, None)
            self._positions[lane] = position
        while len(self._positions) > LANES_MAX:
            oldest = next(iter(self._positions))
            del self._positions[oldest]
            self._reading_since.pop(oldest, None)


def _ends_of(claimed: list[ClaimedDelivery]) -> dict[Lane, Position]:
    """Return the position of each lane's last delivery; `claimed` is in the order of the lanes."""
    return {
        Lane(target, tenant_id): Position(next_attempt_at, timer_key)
        for (target, tenant_id), (next_attempt_at, timer_key) in {
            (it.target, it.tenant_id): (it.next_attempt_at, it.timer_key) for it in claimed
        }.items()
    }
