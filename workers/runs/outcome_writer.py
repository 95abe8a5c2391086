"""Write the new states and the ends of runs."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from structlog.typing import FilteringBoundLogger

from shardclock.reason import reason_of
from shardclock_server.jobs.states import RunOutcome
from shardclock_server.sql.bisection import values_at_fault, write_in_halves
from shardclock_server.sql.deliveries.claim import Claim
from shardclock_server.sql.jobs.runs import BegunRun, EndedRun, How, advance_runs, end_runs, record_late_runs
from shardclock_server.sql.session import Session, StatementRefused
from shardclock_server.workers.runs.table import RunTable

ENDS_MAX = 200  # The largest number of ends of runs that one statement writes.
# The pause between two statements that write ends, because a statement for ten ends costs little more than a statement
# for one end.
ENDS_GAP_S = 0.02
CALLED_S = 0.1  # a run that lasts longer than this is stored as RUNNING; for a shorter run only the end is stored


class OutcomeWriter:
    """Write the advances (new states) and the ends of runs to Postgres.

    `soon` wakes the loop that calls this writer.
    """

    def __init__(
        self,
        session: Session,
        holder: int,
        table: RunTable,
        soon: asyncio.Event,
        *,
        log: FilteringBoundLogger,
    ) -> None:
        self._session = session
        self._holder = holder
        self._table = table
        self._soon = soon
        self._log = log
        self._ended_at_s = float("-inf")
        self.is_gathering = False  # true during the pause in which further ends are collected for the same statement

    def call(self, run: BegunRun) -> None:
        """Record that a run's function is called now."""
        self._table.call(run, now_s=time.monotonic())
        asyncio.get_running_loop().call_later(CALLED_S, self._show_soon, run)

    def terminate(self, run: BegunRun, reason: str) -> None:
        """Record that a run must end."""
        self._table.terminate(run, reason)
        self._soon.set()

    def end(self, ended: EndedRun) -> None:
        """Record the end of a run, to be written soon."""
        self._table.end(ended)
        if not self.is_gathering:
            self.is_gathering = True
            wait_s = max(0.0, self._ended_at_s + ENDS_GAP_S - time.monotonic())
            asyncio.get_running_loop().call_later(wait_s, self._end_soon)

    async def write_advances(self) -> None:
        """Write the advances of runs; if a job is locked, its advances wait for a later call.

        errors:  StoreUnavailable  the outcome is unknown: call again
        """
        self._table.show(called_until_s=time.monotonic() - CALLED_S)
        locked: frozenset[Claim] = frozenset()
        while advances := self._table.advances(locked):
            locked |= await advance_runs(self._session, self._holder, advances)
            self._table.advance(advances, locked)

    async def write_ends(self) -> bool:
        """Write the ends of runs; if a job is locked, its ends wait for a later call.

        shape:   returns whether an end was written
        errors:  StoreUnavailable  the outcome is unknown: call again
        """
        written, left = False, len(self._table.ending)  # ends that come during this call wait for the next call
        locked: set[Claim] = set()
        while one_of_each_job := self._table.ends(left, locked):
            await self.write_advances()  # a request to end a run may have come since the last write
            now_s = time.monotonic()
            batch = [self._with_call(it, now_s) for it in one_of_each_job[:ENDS_MAX]]
            self._ended_at_s = now_s
            how = await self._end(batch)
            # A crashed run that another worker has ended is not recorded as a late run.
            crashed = RunOutcome.CRASHED
            late = [it for it in batch if how[it.run.claim] is How.LOST and it.ending.outcome is not crashed]
            if late:
                await record_late_runs(self._session, late)
            locked.update(claim for claim, end in how.items() if end is How.LOCKED)
            taken = [it.run for it in batch if it.run.claim not in locked]
            self._table.drop(taken)
            written, left = written or bool(taken), left - len(taken)
        return written

    async def _end(self, batch: Sequence[EndedRun]) -> dict[Claim, How]:
        """Write a batch of ends; if Postgres refuses the texts of an end, write this end without texts."""
        end = partial(end_runs, self._session, self._holder)
        parts = await write_in_halves(batch, end, self._end_refused, values_at_fault)
        return {claim: how for part in parts for claim, how in part.items()}

    async def _end_refused(self, refused: EndedRun, error: StatementRefused) -> dict[Claim, How]:
        self._log.error("end of a run refused", job=refused.run.job, run=refused.run.run_id, error=reason_of(error))
        reason = f"its result or its texts can't be stored: {reason_of(error)}"
        without_texts = EndedRun(
            refused.run,
            replace(refused.ending, reason=reason, traceback=None, result=None),
            refused.duration_s,
            called_s=refused.called_s,
        )
        try:
            return await end_runs(self._session, self._holder, [without_texts])
        except StatementRefused as again:
            if not again.are_values_at_fault:
                raise
            # Don't try again: when the lease of this run has expired, another worker records a crash.
            self._log.error("run not ended", job=refused.run.job, run=refused.run.run_id, error=reason_of(again))
            return {refused.run.claim: How.LOST}

    def _end_soon(self) -> None:
        self.is_gathering = False
        self._soon.set()

    def _show_soon(self, run: BegunRun) -> None:
        if self._table.is_unshown(run):
            self._soon.set()

    def _with_call(self, ended: EndedRun, now_s: float) -> EndedRun:
        called_s = self._table.called_s(ended.run, now_s=now_s)
        return ended if called_s is None else ended._replace(called_s=called_s)
