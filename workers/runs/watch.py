"""While runs go on: what their worker hears and tells of them, and their leases."""

import time
from collections.abc import Sequence

from structlog.typing import FilteringBoundLogger

from shardclock_server.jobs.ending import Asked
from shardclock_server.sql.deliveries.claim import renew_deliveries
from shardclock_server.sql.jobs.runs import SaidOfRun, report_runs, watch_runs
from shardclock_server.sql.session import Session
from shardclock_server.workers.runs.live import LiveRun
from shardclock_server.workers.runs.table import RunTable

WATCH_S = 0.25  # between two looks at what runs: who disables a job is heard this soon


class RunWatch:
    """Watch a worker's runs: read which are to end, renew their leases, and write their reports."""

    def __init__(self, session: Session, holder: int, table: RunTable, *, log: FilteringBoundLogger) -> None:
        self._session = session
        self._holder = holder
        self._table = table
        self._log = log

    async def turn(self) -> float:
        """Make one turn of the loop.

        units:   returns the seconds to wait before the next turn
        """
        live = self._table.live
        await self._renew()
        if live:
            await self._heed(live)
            for it in live:
                it.look()
            await self._report(live)
        return WATCH_S

    async def _report(self, live: Sequence[LiveRun]) -> None:
        now_s = time.monotonic()
        said = [(it, report) for it in live if (report := it.report.due(now_s)) is not None]
        if said:
            await report_runs(self._session, [SaidOfRun(it.run, *report) for it, report in said])
            for it, _ in said:
                it.report.written(now_s)

    async def _heed(self, live: Sequence[LiveRun]) -> None:
        heard = await watch_runs(self._session, [it.run for it in live])
        for it in live:
            if it.run.claim in heard:
                why = heard[it.run.claim]
                if why is not None:
                    it.ask(Asked.BY_CLIENT, why)
                elif self._table.is_under_way(it):  # not one that we have ended ourselves meanwhile
                    self._lose(it, "another worker has ended it")

    async def _renew(self) -> None:
        """Renew the leases of what runs, and of what has ended until Postgres has taken the end."""
        now_s = time.monotonic()
        if not (old := self._table.to_renew(now_s)):
            return
        renewal = await renew_deliveries(self._session, self._holder, old, lease_s=self._table.lease_s)
        for live in self._table.renew(old, renewal, now_s=now_s):
            self._lose(live, "its lease could not be renewed")

    def _lose(self, live: LiveRun, why: str) -> None:
        if not live.is_lost:
            self._log.warning("run lost", job=live.run.job, run=live.run.run_id, reason=why)
            self._table.lose(live)
