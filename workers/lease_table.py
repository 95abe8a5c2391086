"""The leases of one worker, and when it last renewed each."""

from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from shardclock_server.sql.deliveries.claim import Claim

NOT_HELD = (None, float("-inf"))


class Claimed(Protocol):
    """A delivery that a worker has claimed, or a run that it makes for one."""

    @property
    def claim(self) -> Claim:
        """Name the delivery, and the claim."""


T = TypeVar("T", bound=Claimed)


class LeaseTable(Generic[T]):
    """Keep deliveries, or runs, from their claim until they are settled.

    A worker may claim a delivery again while its first call still runs, because the lease has run out meanwhile. So
    each claim is kept by itself.

    units:   moments are of a monotonic clock, in seconds
    """

    def __init__(self) -> None:
        self._held: dict[Claim, tuple[T, float]] = {}

    def __len__(self) -> int:
        """Count the claims in hand."""
        return len(self._held)

    @property
    def claims(self) -> frozenset[Claim]:
        """Return all claims in hand."""
        return frozenset(self._held)

    def take(self, claimed: Iterable[T], *, now_s: float) -> None:
        """Keep deliveries that were claimed, or whose leases were renewed."""
        for it in claimed:
            self._held[it.claim] = it, now_s

    def drop(self, settled: Iterable[T]) -> None:
        """Forget deliveries that were settled."""
        for it in settled:
            self._held.pop(it.claim, None)

    def renewed_before(self, moment_s: float) -> list[T]:
        """Return those whose leases were renewed last before a moment."""
        return [it for it, renewed_s in self._held.values() if renewed_s < moment_s]

    def held(self, claimed: Iterable[T], *, since_s: float) -> list[T]:
        """Return those that are in hand, by a lease that was taken or renewed since a moment."""
        return [it for it in claimed if self._held.get(it.claim, NOT_HELD)[1] >= since_s]

    def renew(self, claimed: Iterable[T], *, now_s: float) -> None:
        """Note that leases were renewed, except of those that were settled meanwhile."""
        self.take((it for it in claimed if it.claim in self._held), now_s=now_s)
