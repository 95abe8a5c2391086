"""Renew a lease while the work on its batch lasts, in a thread beside it; the work itself can't be interrupted."""

import threading
import time

from shardclock.log.failing import LeaseLost
from shardclock.log.saying import GroupLog, Lasting
from shardclock.log.sync_batch import Batch
from shardclock.log.sync_timing import LeasedWork


def work_under_lease(log: GroupLog, work: LeasedWork, batch: Batch) -> None:
    """Do the work and renew its lease meanwhile; if the lease is lost, say so when the work has ended.

    errors:  LeaseLost  the work has ended too late
             others     of the work
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
    """Renew the lease until the work ends, or until it can't be renewed."""

    def __init__(self, log: GroupLog, batch: Batch) -> None:
        super().__init__(name="shardclock lease", daemon=True)
        self.error: LeaseLost | None = None
        self._batch = batch
        self._ends = threading.Event()
        self._lasting = Lasting(log, time.monotonic())

    def run(self) -> None:
        """Renew the lease, again and again."""
        while not self._ends.wait(self._batch.lease_s / 3):
            try:
                self._batch.renew()
            except Exception as error:  # noqa: BLE001 - the thread that works raises it
                self.error = error if isinstance(error, LeaseLost) else LeaseLost(f"it can't be renewed: {error}")
                return
            self._lasting.say(time.monotonic(), len(self._batch.records), self._batch.place)

    def stop(self) -> None:
        """End, after a renewal that is under way."""
        self._ends.set()
        self.join()
