"""Where one partition of a consumer group is in the log."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PartitionPlace:
    """The place of one partition of a group when a member took it; no new record can appear up to `horizon`.

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
        """Say up to which position all records are done after the work on a batch with these positions.

        A full batch ends with its last record. A batch that is not full has all records up to the horizon.
        """
        return positions[-1] if full else self.horizon
