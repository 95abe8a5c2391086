"""Fire groups of due timers in turns, if more timers are due than one statement can fire.

A tenant's schedules may become due again as soon as they have fired. If one statement can't fire all due timers, the
statements alternate: one fires plain timers, the next fires the schedules of one tenant. The tenants take turns, so no
tenant delays other tenants for long.
"""

import heapq
from collections import deque
from typing import TypeAlias

Entry: TypeAlias = tuple[float, int]  # the moment at which the timer is due, and its key


class Lanes:
    """Queues of due timers: one lane for plain timers, and one lane for each tenant's schedules."""

    def __init__(self) -> None:
        self._plain: list[Entry] = []
        self._schedules: dict[str, list[Entry]] = {}
        self._tenants: deque[str] = deque()  # the tenants with a lane, in the order of their turns
        self._is_plain_next = True

    def __bool__(self) -> bool:
        return bool(self._plain or self._tenants)

    def push(self, entry: Entry, tenant_id: str | None) -> None:
        """Add a due timer; `tenant_id` is None for a plain timer."""
        if tenant_id is None:
            heapq.heappush(self._plain, entry)
            return
        lane = self._schedules.get(tenant_id)
        if lane is None:
            lane = self._schedules[tenant_id] = []
            self._tenants.append(tenant_id)
        heapq.heappush(lane, entry)

    def pop(self) -> Entry:
        """Remove and return the soonest timer of the next lane. The queues must not be empty."""
        is_plain = bool(self._plain) and (self._is_plain_next or not self._tenants)
        self._is_plain_next = not is_plain
        return heapq.heappop(self._plain) if is_plain else self._pop_schedule()

    def _pop_schedule(self) -> Entry:
        tenant_id = self._tenants.popleft()
        lane = self._schedules[tenant_id]
        entry = heapq.heappop(lane)
        if lane:
            self._tenants.append(tenant_id)
        else:
            del self._schedules[tenant_id]
        return entry
