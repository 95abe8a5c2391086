"""The position of one partition of a consumer group in the log."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The state of one partition of a group when a member took the partition; no new record can appear up to `horizon`.

    Without a `lease`, the partition is locked by the member's transaction.
    """

    group: str
    partition: int
    partitions: int
    position: int
    attempts: int
    horizon: int
    lease: int | None = None

    def end_of(self, positions: Sequence[int], *, full: bool) -> int:
        """Return the position up to which all records are done after a batch with these positions.

        A full batch is done up to its last record. Any other batch contains all records up to the horizon.
        """
        return positions[-1] if full else self.horizon
