"""Hold tenants to their quotas of instances, open tasks and pending timers.

An engine reads the room of a tenant at most once a second while there is enough, and subtracts its own writes
since: docs/decisions/0071-quotas-of-processes.md.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from shardclock_server.engine.needs import NOTHING, Needs
from shardclock_server.sql.session import Session
from shardclock_server.sql.tenants.tenants import Room, rooms_of
from shardclock_server.timers.refusal import Refusal, shortened

READ_S = 1.0  # between two reads of a tenant that has enough room
TENANTS_MAX = 10_000
IN_WORDS = {
    "instances": "instances that have not ended",
    "tasks": "open tasks",
    "timers": "pending timers",
}


class NoRoom(Refusal):
    """A step that its tenant has no room for: it waits, and is tried again."""


@dataclass(slots=True)
class TenantRooms:
    """The room of one tenant at its last reading, and the writes since its count.

    shape:   `written` has amounts by resource and by the server's time
    """

    read_at_s: float
    rooms: Mapping[str, Room]
    written: dict[str, Counter[datetime]]

    def left(self, resource: str) -> int | None:
        """Tell how much more the tenant may have; None: there is no limit."""
        left = self.rooms[resource].left
        return None if left is None else left - self.written[resource].total()

    def write(self, need: Needs, now: datetime) -> None:
        """Subtract the rows of a step from the room."""
        for resource, more in zip(Needs._fields, need, strict=True):
            if more:
                self.written[resource][now] += more


class TenantQuotas:
    """Reserve room for steps; one runner's."""

    def __init__(self, session: Session, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._session = session
        self._clock = clock
        self._known: dict[str, TenantRooms] = {}

    async def refused(self, needs: Mapping[int, tuple[str, Needs]], *, now: datetime) -> dict[int, NoRoom]:
        """Reserve room for the steps of instances; return the instances for which there is none.

        shape:   `needs` has for each instance its tenant, and what its step needs; `now` is the server's time
        errors:  StoreUnavailable  no answer in time
        """
        wanted = {key: need for key, need in needs.items() if need[1] is not NOTHING}
        totals = _totals(wanted.values())
        await self._read(set(totals), READ_S)
        # A tenant may have more room by now, so no step waits because of an older read.
        await self._read({tenant for tenant, total in totals.items() if self._short_of(tenant, total)}, 0.0)
        short = {tenant for tenant, total in totals.items() if self._short_of(tenant, total)}
        for tenant in totals.keys() - short:
            self._known[tenant].write(totals[tenant], now)
        refused = {}
        for key, (tenant, need) in wanted.items() if short else ():
            if tenant not in short:
                continue
            known = self._known[tenant]
            if resource := self._short_of(tenant, need):
                refused[key] = _no_room(tenant, resource, known.rooms[resource], getattr(need, resource))
            else:
                known.write(need, now)
        return refused

    async def _read(self, tenants: set[str], age_s: float) -> None:
        now_s = self._clock()
        due = sorted(
            tenant
            for tenant in tenants
            if (known := self._known.get(tenant)) is None or now_s - known.read_at_s >= age_s
        )
        if not due:
            return
        if len(self._known) + len(due) > TENANTS_MAX:
            self._known = {tenant: self._known[tenant] for tenant in tenants if tenant in self._known}
        for tenant, rooms in (await rooms_of(self._session, due)).items():
            before = self._known[tenant].written if tenant in self._known else {}
            written = {resource: _since(before.get(resource), room) for resource, room in rooms.items()}
            self._known[tenant] = TenantRooms(now_s, rooms, written)

    def _short_of(self, tenant: str, need: Needs) -> str | None:
        """Name the resource of which a tenant has not enough; None: there is room."""
        for resource, more in zip(Needs._fields, need, strict=True):
            left = self._known[tenant].left(resource) if more else None
            if left is not None and more > left:
                return resource
        return None


def _totals(needs: Iterable[tuple[str, Needs]]) -> dict[str, Needs]:
    """Add the needs of the instances of each tenant."""
    totals: dict[str, Needs] = {}
    for tenant, (instances, tasks, timers) in needs:
        total = totals.get(tenant, NOTHING)
        totals[tenant] = Needs(total.instances + instances, total.tasks + tasks, total.timers + timers)
    return totals


def _since(before: Counter[datetime] | None, room: Room) -> Counter[datetime]:
    """Keep the writes since a count, because the count may lack them; a count by the call itself has all."""
    if before is None or room.counted_at is None:
        return Counter()
    return Counter({at: amount for at, amount in before.items() if at >= room.counted_at})


def _no_room(tenant: str, resource: str, room: Room, more: int) -> NoRoom:
    return NoRoom(
        f"tenant {shortened(tenant)} may have {room.quota:,} {IN_WORDS[resource]}, and has no room for {more:,} more;"
        f" end some, or ask the operator of the cluster for more (shardclock tenants set {tenant}"
        f" --{resource} N): then it goes on"
    )
