# Written by `make docs` from async_batch.py: change that, and write this anew.
"""Records that a member has leased, and how many of them are done."""

import time
from collections.abc import Sequence

from shardclock.log.failing import LeaseLost, is_passing, told
from shardclock.log.place import PartitionPlace
from shardclock.log.record import LogRecord
from shardclock.log.sync_groups import move_place
from shardclock.log.sync_timing import Lock, limit
from shardclock.sql.sync_timers import Driver

LAST_ASK_S = 1.0  # one statement: Postgres answers in milliseconds, or is away


class Batch:
    """Some records to work on, and how many are done. Only one task may use it at a time."""

    def __init__(self, driver: Driver, place: PartitionPlace, records: Sequence[LogRecord], *, lease_s: float) -> None:
        self.records = records
        self.place = place
        self._driver = driver
        self.lease_s = lease_s
        self._until_s = time.monotonic() + lease_s
        self._asking = Lock()

    def acknowledge(self, record: LogRecord) -> None:
        """Record that all records up to this one are done: the next member begins behind it.

        errors:  LeaseLost  another member has the batch: end the work
                 others     of the driver: the outcome is unknown; go on, a later acknowledgement includes this one
        """
        self._move(record.position, worked=True, keep_s=self.lease_s)

    def renew(self) -> None:
        """Renew the lease; wait for an answer, or for the end of an outage, as long as the lease lasts.

        errors:  LeaseLost  it has run out
        """
        left_s = self._until_s - time.monotonic()
        try:
            # A member that was frozen until the lease ran out tries all the same: perhaps no other has taken the batch.
            with limit(left_s if left_s > 0 else LAST_ASK_S):
                self._move(self.place.position, worked=False, keep_s=self.lease_s)
        except TimeoutError as error:
            raise LeaseLost("it could not be renewed in time: no answer") from error
        except Exception as error:
            if not is_passing(error):
                raise
            if time.monotonic() >= self._until_s:
                raise LeaseLost(f"it could not be renewed in time: {told(error)}") from error

    def give_back(self, position: int, *, worked: bool) -> PartitionPlace:
        """End the lease, with all records done up to a position.

        errors:  LeaseLost, and those of the driver
        """
        self._move(position, worked=worked, keep_s=None)
        return self.place

    @property
    def unacknowledged(self) -> Sequence[LogRecord]:
        """List the records that are not acknowledged."""
        return [record for record in self.records if record.position > self.place.position]

    def _move(self, position: int, *, worked: bool, keep_s: float | None) -> None:
        with self._asking:
            asked_s = time.monotonic()
            self.place = move_place(self._driver, self.place, position, worked=worked, keep_s=keep_s)
            self._until_s = asked_s + (keep_s or 0.0)
