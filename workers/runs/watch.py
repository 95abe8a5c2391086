"""While runs go on: what their worker hears and tells of them, and their leases."""

import time
from collections.abc import Mapping, Sequence

from structlog.typing import FilteringBoundLogger

from shardclock_server.jobs.ending import Asked
from shardclock_server.sql.deliveries.claim import Claim, renew_deliveries
from shardclock_server.sql.jobs.runs import BegunRun, SaidOfRun, report_runs, watch_runs
from shardclock_server.sql.session import Session
from shardclock_server.workers.hand import Hand
from shardclock_server.workers.runs.lifetime import MARGIN_S
from shardclock_server.workers.runs.live import LiveRun

WATCH_S = 0.25  # between two looks at what runs: who disables a job is heard this soon


class RunWatch:
    """Watch a worker's runs: does somebody want one to end, does its lease go on, and what has it said?

    Those in `hand` keep their leases until Postgres has taken their ends. Those in `live` have not ended.
    """

    def __init__(
        self,
        session: Session,
        holder: int,
        lease_s: float,
        *,
        hand: Hand[BegunRun],
        live: Mapping[Claim, LiveRun],
        log: FilteringBoundLogger,
    ) -> None:
        self._session = session
        self._holder = holder
        self._lease_s = lease_s
        self._hand = hand
        self._live = live
        self._log = log

    async def turn(self) -> float:
        """Make one turn of the loop.

        units:   returns the seconds to wait before the next turn
        """
        live = list(self._live.values())
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
                elif it.run.claim in self._live:  # not one that we have ended ourselves meanwhile
                    self._lose(it, "another worker has ended it")

    async def _renew(self) -> None:
        """Renew the leases of what runs, and of what has ended until Postgres has taken the end."""
        now_s, lease_s = time.monotonic(), self._lease_s
        old = self._hand.renewed_before(now_s - lease_s / 4)
        if not old:
            return
        renewal = await renew_deliveries(self._session, self._holder, old, lease_s=lease_s)
        self._hand.renew((run for run in old if run.claim in renewal.renewed), now_s=now_s)
        for run in old:
            live = self._live.get(run.claim)
            if run.claim in renewal.renewed:
                if live is not None:
                    live.life.lease_until_s = now_s + lease_s - MARGIN_S
            elif run.claim not in renewal.locked:
                self._hand.drop([run])
                if live is not None:
                    self._lose(live, "its lease could not be renewed")
            # Nobody else can claim what somebody has locked, so such a run goes on. But its lease does not: if the lock
            # outlasts it, the run's process ends itself, since another worker may begin the moment the lock is gone.

    def _lose(self, live: LiveRun, why: str) -> None:
        if not live.is_lost:
            self._log.warning("run lost", job=live.run.job, run=live.run.run_id, reason=why)
            self._hand.drop([live.run])
            live.lose()
