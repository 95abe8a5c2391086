"""The timers that a shard has leased, soonest first; due timers are in `shards.lanes`."""

import asyncio
import heapq
import math
from collections.abc import Callable, Iterable

from shardclock_server.keepers.clock import seconds_of
from shardclock_server.shards.lanes import Lanes
from shardclock_server.timers.model import ClaimedTimer

# If a timer is leased twice, the heap has a stale entry. The heap is rebuilt when it has more entries than twice the
# timers plus this number.
STALE_MAX = 1_000
# Starts of jobs fire only at this number of moments in each second, so that one statement fires several starts. A delay
# of 16 ms does not matter for a job. The number is a power of two, so that floating point numbers represent the moments
# exactly.
STARTS_PER_S = 64


class TimerQueue:
    """A queue of leased timers, soonest first; it wakes a waiting task when the soonest timer is due.

    If queries return different versions of a timer, the queue keeps the version of the query that was sent last, even
    if its result arrives first. Only one task may wait; all tasks may add timers. With `gathers_starts`, starts of jobs
    that are due within milliseconds fire together.
    """

    def __init__(self, *, gathers_starts: bool = True) -> None:
        self._gathers_starts = gathers_starts
        self._timers: dict[int, tuple[float, ClaimedTimer]] = {}
        self._heap: list[tuple[float, int]] = []
        self._due = Lanes()
        self._sooner = asyncio.Event()

    def __len__(self) -> int:
        return len(self._timers)

    def add(self, timers: Iterable[ClaimedTimer], *, not_before_s: float = 0.0) -> None:
        """Add timers, to be fired when they are due.

        units:   `not_before_s`, in seconds since 1970, delays the retry of timers that could not be fired
        """
        soonest = self.soonest_s()
        for timer in timers:
            at = max(seconds_of(timer.due_date), not_before_s)
            if timer.starts_job and self._gathers_starts:
                at = math.ceil(at * STARTS_PER_S) / STARTS_PER_S
            held = self._timers.get(timer.timer_key)
            if held is not None and held[1].request_number > timer.request_number:
                continue
            self._timers[timer.timer_key] = (at, timer)
            if held is None or held[0] != at:
                heapq.heappush(self._heap, (at, timer.timer_key))
        if len(self._heap) > 2 * len(self._timers) + STALE_MAX:
            self._forget_stale()
        if self._heap and (soonest is None or self._heap[0][0] < soonest):
            self._sooner.set()

    def pop_due(self, now_s: float, limit: int) -> list[ClaimedTimer]:
        """Remove and return at most `limit` due timers, soonest first; if more are due, alternate between the lanes."""
        newly_due = self._pop_heap(now_s)
        if not self._due and len(newly_due) <= limit:
            taken = (self._timers.pop(timer_key, None) for _, timer_key in newly_due)
            return [held[1] for held in taken if held is not None]
        for entry in newly_due:
            self._due.push(entry, self._timers[entry[1]][1].tenant_id)
        due: list[ClaimedTimer] = []
        while self._due and len(due) < limit:
            at, timer_key = self._due.pop()
            held = self._timers.get(timer_key)
            if held is not None and held[0] == at:
                del self._timers[timer_key]
                due.append(held[1])
        return due

    def soonest_s(self) -> float | None:
        """Return the due moment of the soonest timer that is not yet due; None if there is no such timer."""
        while self._heap:
            at, timer_key = self._heap[0]
            held = self._timers.get(timer_key)
            if held is not None and held[0] == at:
                return at
            heapq.heappop(self._heap)  # skip a stale entry: the timer was replaced or removed
        return None

    def _pop_heap(self, now_s: float) -> list[tuple[float, int]]:
        """Remove the due entries from the heap; return the entries that are not stale.

        The result may contain a timer twice.
        """
        due: list[tuple[float, int]] = []
        heap, timers = self._heap, self._timers
        while heap and heap[0][0] <= now_s:
            entry = heapq.heappop(heap)
            held = timers.get(entry[1])
            if held is not None and held[0] == entry[0]:
                due.append(entry)
        return due

    async def until_due(self, now_s: Callable[[], float]) -> None:
        """Wait until the soonest timer is due, or until `wake` is called.

        A timer that is added during the wait can only move the alarm to an earlier moment.
        """
        self._sooner.clear()
        if self._due:
            await asyncio.sleep(0)  # let other tasks run, although due timers are left
            return
        soonest = self.soonest_s()
        if soonest is None:
            await self._sooner.wait()
            return
        delay_s = soonest - now_s()
        if delay_s <= 0:
            await asyncio.sleep(0)
            return
        alarm = asyncio.get_running_loop().call_later(delay_s, self._sooner.set)
        try:
            await self._sooner.wait()
        finally:
            alarm.cancel()

    def wake(self) -> None:
        """End the wait of `until_due` now."""
        self._sooner.set()

    def _forget_stale(self) -> None:
        self._heap = [(at, timer_key) for timer_key, (at, _) in self._timers.items()]
        heapq.heapify(self._heap)
