"""The capacity that workers grant to a shard, and the deliveries that a shard hands over to these workers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias

Row: TypeAlias = tuple[Any, ...]  # The fields of a ClaimedDelivery.
# For each worker (identified by its holder), the rows of deliveries in the order of their due dates.
Handed: TypeAlias = dict[int, list[Row]]


@dataclass(frozen=True, slots=True)
class Grants:
    """For each worker and target, the number of deliveries that a statement may claim for this worker.

    units:   `lease_s` is the duration of the claims
    """

    places: Mapping[int, Mapping[str, int]]
    lease_s: float = 0.0

    def values(self) -> dict[str, object]:
        """Return the grants as parameters of a firing statement."""
        each = [(worker, *it) for worker, places in self.places.items() for it in places.items()]
        return {
            "granted_by": [worker for worker, _, _ in each],
            "granted_targets": [target for _, target, _ in each],
            "granted_places": [places for _, _, places in each],
            "granted_lease": timedelta(seconds=self.lease_s),
        }


NO_GRANTS = Grants({})


def handed_of(records: Sequence[Row] | None) -> Handed:
    """Group handed-over deliveries by worker, which is the last field of each record."""
    handed: Handed = {}
    for record in records or ():
        handed.setdefault(record[-1], []).append(record[:-1])
    return handed
