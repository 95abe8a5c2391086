"""Renew a lease during the work on its batch, in a second thread; the work itself can't be interrupted."""

import threading
import time

from shardclock.log.failures import LeaseLost
from shardclock.log.group_log import BatchTimer, GroupLog
from shardclock.log.sync_batch import Batch
from shardclock.log.sync_timing import LeasedWork


def work_under_lease(log: GroupLog, work: LeasedWork, batch: Batch) -> None:
    """Call the work and renew the batch's lease until the work ends; raise LeaseLost if the lease was lost.

    errors:  LeaseLost  the lease ended before the work ended.
             Exception  an error of the work.
    """
    keeper = _Keeper(log, batch)
    keeper.start()
    try:
        work(batch)
    finally:
        keeper.stop()
    if keeper.error is not None:
        raise keeper.error


class _Keeper(threading.Thread):
    """Renew the lease until the work ends, or until a renewal fails."""

    def __init__(self, log: GroupLog, batch: Batch) -> None:
        super().__init__(name="shardclock lease", daemon=True)
        self.error: LeaseLost | None = None
        self._batch = batch
        self._ends = threading.Event()
        self._timer = BatchTimer(log, time.monotonic())

    def run(self) -> None:
        """Renew the lease at intervals."""
        while not self._ends.wait(self._batch.lease_s / 3):
            try:
                self._batch.renew()
            except Exception as error:  # noqa: BLE001 - the working thread raises it
                self.error = (
                    error if isinstance(error, LeaseLost) else LeaseLost(f"the lease can't be renewed: {error}")
                )
                return
            self._timer.log_if_due(time.monotonic(), len(self._batch.records), self._batch.state)

    def stop(self) -> None:
        """Wait for a renewal in progress, and end the thread."""
        self._ends.set()
        self.join()
