"""The position of one partition of a consumer group in the log."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The state of a group's partition when a member leased or locked it; no new record can appear up to `horizon`.

    Without a `lease`, the member's transaction has locked the partition.
    """

    group: str
    partition: int
    partitions: int
    position: int
    attempts: int
    horizon: int
    lease: int | None = None

    def end_of(self, positions: Sequence[int], *, full: bool) -> int:
        """Return the position up to which all records are done once the batch with these positions is done.

        For a full batch, the position is the position of its last record. A batch that is not full contains all records
        up to the horizon, so the position is the horizon.
        """
        return positions[-1] if full else self.horizon
