"""Decide which deliveries of a worker may be called now."""

import time
from collections.abc import Sequence

from shardclock_server.keepers.heartbeat import Heartbeat
from shardclock_server.sql.deliveries.claim import ClaimedDelivery
from shardclock_server.sql.deliveries.settle import Settlement
from shardclock_server.sql.endpoints.endpoints import NOTIFY
from shardclock_server.workers.lease_table import LeaseTable
from shardclock_server.workers.settler import Settler


class CallPermits:
    """Permit a call if the delivery's lease has not ended and the database is not on hold."""

    def __init__(
        self, heartbeat: Heartbeat, leases: LeaseTable[ClaimedDelivery], settler: Settler, *, lease_s: float
    ) -> None:
        self._heartbeat = heartbeat
        self._leases = leases
        self._settler = settler
        self._lease_s = lease_s

    @property
    def may_call(self) -> bool:
        """Return whether targets may be called; False while the database is on hold."""
        return self._heartbeat.last.hold_reason is None

    def held(self, deliveries: Sequence[ClaimedDelivery]) -> list[ClaimedDelivery]:
        """Return the given deliveries that may be called. While the database is on hold, release all other deliveries.

        If an operator has set the hold, workers still send the webhooks of operator events, because the start of the
        hold is itself an event. An ended lease is removed from the table, because the worker would otherwise renew it
        for ever.
        """
        if not self.may_call:
            self._settler.add([Settlement(it, None) for it in deliveries if not self._may_notify(it)])
            deliveries = [it for it in deliveries if self._may_notify(it)]
        held = self._leases.held(deliveries, since_s=time.monotonic() - self._lease_s)
        if len(held) < len(deliveries):
            kept = {it.claim for it in held}
            self._leases.drop(it for it in deliveries if it.claim not in kept)
        return held

    def _may_notify(self, delivery: ClaimedDelivery) -> bool:
        return self._heartbeat.last.is_own and delivery.target.startswith(NOTIFY)
