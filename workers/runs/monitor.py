"""Watch runs: read requests to end runs, renew leases, and write reports."""

import time
from collections.abc import Sequence

from structlog.typing import FilteringBoundLogger

from shardclock_server.jobs.next_attempt import StopReason
from shardclock_server.sql.deliveries.claim import renew_deliveries
from shardclock_server.sql.jobs.runs import RunProgress, report_runs, watch_runs
from shardclock_server.sql.session import Session
from shardclock_server.workers.runs.live import LiveRun
from shardclock_server.workers.runs.table import RunTable

WATCH_S = 0.25  # the time between two turns, which is the longest delay of a request to end a disabled job's run


class RunMonitor:
    """Watch a worker's runs: read requests to end runs, renew leases, and write reports."""

    def __init__(self, session: Session, holder: int, table: RunTable, *, log: FilteringBoundLogger) -> None:
        self._session = session
        self._holder = holder
        self._table = table
        self._log = log

    async def turn(self) -> float:
        """Run the loop once.

        units:   returns the seconds to wait before the next turn
        """
        live = self._table.live
        await self._renew()
        if live:
            await self._request_ends(live)
            for it in live:
                it.poll()
            await self._report(live)
        return WATCH_S

    async def _report(self, live: Sequence[LiveRun]) -> None:
        now_s = time.monotonic()
        reports = [(it, report) for it in live if (report := it.report.due(now_s)) is not None]
        if reports:
            await report_runs(self._session, [RunProgress(it.run, *report) for it, report in reports])
            for it, _ in reports:
                it.report.written(now_s)

    async def _request_ends(self, live: Sequence[LiveRun]) -> None:
        requests = await watch_runs(self._session, [it.run for it in live])
        for it in live:
            if it.run.claim in requests:
                why = requests[it.run.claim]
                if why is not None:
                    it.request_end(StopReason.BY_CLIENT, why)
                elif self._table.is_under_way(it):  # false: this worker has ended the run during the statement
                    self._drop_lost(it, "another worker has ended the run")

    async def _renew(self) -> None:
        """Renew the leases of runs; the lease of a finished run is renewed until Postgres has stored its end."""
        now_s = time.monotonic()
        if not (old := self._table.to_renew(now_s)):
            return
        renewal = await renew_deliveries(self._session, self._holder, old, lease_s=self._table.lease_s)
        for live in self._table.renew(old, renewal, now_s=now_s):
            self._drop_lost(live, "the run's lease could not be renewed")

    def _drop_lost(self, live: LiveRun, why: str) -> None:
        if not live.is_lost:
            self._log.warning("run lost", job=live.run.job, run=live.run.run_id, reason=why)
            self._table.lose(live)
