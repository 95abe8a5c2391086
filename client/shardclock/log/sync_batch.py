# `make docs` writes this file from async_batch.py: change that file, and run `make docs`.
"""A member's batch: leased records, and the position of the last acknowledged record."""

import time
from collections.abc import Sequence

from shardclock.log.failures import LeaseLost, error_text, is_passing
from shardclock.log.partition import PartitionState
from shardclock.log.record import LogRecord
from shardclock.log.sync_groups import acknowledge_partition
from shardclock.log.sync_timing import Lock, limit
from shardclock.sql.sync_timers import Driver

LAST_ASK_S = 1.0  # the timeout of one statement; a working Postgres answers in milliseconds


class Batch:
    """Leased records, and the position of the last acknowledged record; concurrent tasks must not share a batch."""

    def __init__(self, driver: Driver, state: PartitionState, records: Sequence[LogRecord], *, lease_s: float) -> None:
        self.records = records
        self.state = state
        self._driver = driver
        self.lease_s = lease_s
        self._until_s = time.monotonic() + lease_s
        self._asking = Lock()

    def acknowledge(self, record: LogRecord) -> None:
        """Acknowledge all records up to and including `record`.

        errors:  LeaseLost  another member has the batch: end the work.
                 Exception  an error of the driver: the outcome is unknown; continue, because a later acknowledgement
                            includes this record.
        """
        self._move(record.position, worked=True, keep_s=self.lease_s)

    def renew(self) -> None:
        """Renew the lease; during an outage, retry until the lease ends.

        errors:  LeaseLost  the lease has ended
        """
        left_s = self._until_s - time.monotonic()
        try:
            # A member that was frozen for longer than its lease still tries a renewal. The renewal succeeds if no other
            # member has leased the batch.
            with limit(left_s if left_s > 0 else LAST_ASK_S):
                self._move(self.state.position, worked=False, keep_s=self.lease_s)
        except TimeoutError as error:
            raise LeaseLost("the lease could not be renewed in time: no answer") from error
        except Exception as error:
            if not is_passing(error):
                raise
            if time.monotonic() >= self._until_s:
                raise LeaseLost(f"the lease could not be renewed in time: {error_text(error)}") from error

    def give_back(self, position: int, *, worked: bool) -> PartitionState:
        """End the lease; all records up to `position` are done.

        errors:  LeaseLost, and errors of the driver
        """
        self._move(position, worked=worked, keep_s=None)
        return self.state

    @property
    def unacknowledged(self) -> Sequence[LogRecord]:
        """The records that are not acknowledged."""
        return [record for record in self.records if record.position > self.state.position]

    def _move(self, position: int, *, worked: bool, keep_s: float | None) -> None:
        with self._asking:
            asked_s = time.monotonic()
            self.state = acknowledge_partition(self._driver, self.state, position, worked=worked, keep_s=keep_s)
            self._until_s = asked_s + (keep_s or 0.0)
