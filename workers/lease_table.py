"""The leases of one worker, each with its last renewal."""

from collections.abc import Iterable
from typing import Generic, TypeVar

from shardclock_server.sql.deliveries.claim import Claim, HasClaim

NOT_HELD = (None, float("-inf"))


T = TypeVar("T", bound=HasClaim)


class LeaseTable(Generic[T]):
    """The leases of deliveries or runs, from the claim until the settlement.

    Each claim has a separate entry: if a lease ends during the call, the same worker may claim the delivery again.

    units:   seconds of a monotonic clock
    """

    def __init__(self) -> None:
        self._held: dict[Claim, tuple[T, float]] = {}

    def __len__(self) -> int:
        """Count the leases."""
        return len(self._held)

    @property
    def claims(self) -> frozenset[Claim]:
        """Return all leased claims."""
        return frozenset(self._held)

    def take(self, claimed: Iterable[T], *, now_s: float) -> None:
        """Add new or renewed leases."""
        for it in claimed:
            self._held[it.claim] = it, now_s

    def drop(self, settled: Iterable[T]) -> None:
        """Remove the leases of settled deliveries or ended runs."""
        for it in settled:
            self._held.pop(it.claim, None)

    def renewed_before(self, moment_s: float) -> list[T]:
        """Return the items with leases that were last renewed before a moment."""
        return [it for it, renewed_s in self._held.values() if renewed_s < moment_s]

    def held(self, claimed: Iterable[T], *, since_s: float) -> list[T]:
        """Return the items of `claimed` that were claimed or renewed since a moment."""
        return [it for it in claimed if self._held.get(it.claim, NOT_HELD)[1] >= since_s]

    def renew(self, claimed: Iterable[T], *, now_s: float) -> None:
        """Record renewals; ignore leases that were removed while the statement ran."""
        self.take((it for it in claimed if it.claim in self._held), now_s=now_s)
