"""Start, watch and end all runs of a worker."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from shardclock import JobPolicy
from shardclock_server.jobs.next_attempt import RunEnding, StopReason, crash_of
from shardclock_server.jobs.policy import read_policy
from shardclock_server.jobs.spec import InvalidJob, JobSpec
from shardclock_server.jobs.states import RunOutcome
from shardclock_server.keepers.keeper import KeeperLoop, KeeperPart
from shardclock_server.keepers.registration import Registration
from shardclock_server.sql.jobs.declare import FORGOTTEN_MAX, REPAIRED_MAX, maintain_jobs, prune_runs, repair_job_waits
from shardclock_server.sql.jobs.runs import BegunRun, EndedRun, OwnRuns, begin_runs
from shardclock_server.workers.dependencies import Dependencies
from shardclock_server.workers.run_resources import RunResources
from shardclock_server.workers.runs.lifetime import MARGIN_S
from shardclock_server.workers.runs.live import START_AGAIN_S, LiveRun
from shardclock_server.workers.runs.monitor import RunMonitor
from shardclock_server.workers.runs.outcome_writer import OutcomeWriter
from shardclock_server.workers.runs.poll_planner import PollPlanner
from shardclock_server.workers.runs.process import RunProcess
from shardclock_server.workers.runs.process_pool import BUSY_S, ProcessPool, not_started
from shardclock_server.workers.runs.table import RunTable

MAINTENANCE_S = 30.0
PRUNE_S = 60.0
NO_CODE_S = 5.0  # The delay of a start if this worker does not have the job's code; another worker may have the code.
NO_NODE_S = 30.0  # The delay of a start if no node has the resources that it needs.
CLOSE_S = 0.5  # If locks on jobs prevent the record of their runs' ends, a stopping worker retries for this time.


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The limit of concurrent runs of each kind, the lease of a run, and the poll interval."""

    places: int
    lease_s: float
    poll_s: float


class JobRunner(KeeperPart):
    """Execute runs of an app's jobs: at most one run of a job at a time, within the limits of concurrent runs."""

    def __init__(
        self,
        registration: Registration,
        specs: Sequence[JobSpec],
        settings: RunLimits,
        *,
        start: Callable[[RunResources], RunProcess],
        dependencies: Dependencies,
    ) -> None:
        session, log = registration.session, registration.log
        holder = self._holder = registration.holder
        self._heartbeat = registration.heartbeat
        self.soon = asyncio.Event()
        self._specs = {spec.reference: spec for spec in specs}
        self._settings = settings
        self._pool = ProcessPool(settings.places, start=start, prefetch_max=dependencies.prefetch_max)
        self._planner = PollPlanner(settings.poll_s, settings.places)
        self._runs, self._maintenance = session("runs"), session("maintenance")
        self._table = RunTable(settings.lease_s)
        self._writer = OutcomeWriter(self._runs, holder, self._table, self.soon, log=log)
        self.monitor = RunMonitor(session("watches"), holder, self._table, log=log)
        self._log = log
        self._jitter, self._begin_runs = dependencies.jitter, dependencies.begin_runs
        self._has_node, machine = dependencies.has_node, dependencies.machine
        self._machine = machine.to_json() if machine is not None else None
        self._prune_at_s = 0.0
        self._stopped = False

    def __len__(self) -> int:
        """Count the runs."""
        return len(self._table)

    def loops(self) -> Sequence[KeeperLoop]:
        """List the loops that start, watch and end runs.

        If the app has no jobs, the only loop maintains the table of jobs.
        """
        maintenance = KeeperLoop("maintenance", self.maintenance_turn)
        if not self.has_jobs:
            return [maintenance]
        return [KeeperLoop("runs", self.run_turn, self.soon), KeeperLoop("watches", self.monitor.turn), maintenance]

    @property
    def has_jobs(self) -> bool:
        """Return whether the app has jobs."""
        return bool(self._specs)

    def notify(self) -> None:
        """Poll soon, because a start of a job is due."""
        wait_s = self._planner.notify(time.monotonic())
        if wait_s:
            asyncio.get_running_loop().call_later(wait_s, self.poll_soon)
        elif wait_s is not None:
            self.poll_soon()

    def poll_soon(self) -> None:
        """Run the next turn now, with a poll."""
        self._planner.request()
        self.soon.set()

    async def run_turn(self) -> float:
        """Run the loop once: write the ends of runs, and start due runs."""
        return await self.turn(may_begin=self._heartbeat.began)

    async def turn(self, *, may_begin: bool) -> float:
        """Write the new states and the ends of runs, and start due runs.

        units:   returns the seconds to wait before the next turn
        """
        self.soon.clear()
        await self._writer.write_advances()
        is_leaving = self._stopped or not may_begin
        is_to_poll = not self._wait_s()
        # Write ends first, because a job's next run can't start before the end of its last run is written.
        is_to_end = is_leaving or is_to_poll or not self._writer.is_gathering
        has_ended = is_to_end and await self._writer.write_ends()
        if is_leaving:
            return self._settings.poll_s
        if is_to_poll or not self._wait_s(has_ended=has_ended):
            await self._begin()
        return self._wait_s()

    async def maintenance_turn(self) -> float:
        """If this worker owns the first part of the slots, repair the table of jobs and delete old runs.

        If the app has no jobs, the loop also ends crashed runs, and drops the waiting starts of jobs from an earlier
        app.
        """
        if not self._specs:
            await self._begin()
            await self._writer.write_ends()
        repaired = await repair_job_waits(self._maintenance, self._holder)
        self._log_repaired(repaired)
        if len(repaired) == REPAIRED_MAX:
            return 0.0
        self._log_repaired(await maintain_jobs(self._maintenance, self._holder))
        now_s = time.monotonic()
        if now_s >= self._prune_at_s:
            if await prune_runs(self._maintenance, self._holder) == FORGOTTEN_MAX:
                return 0.0
            self._prune_at_s = now_s + PRUNE_S
        return MAINTENANCE_S

    async def until_ended(self) -> None:
        """Wait until all runs have ended, and write their ends."""
        while (tasks := self._table.tasks) or self._table.ending:
            if tasks:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            await self.turn(may_begin=False)

    def stop(self) -> None:
        """Wake the loop."""
        self.poll_soon()

    def end_calls(self) -> set[asyncio.Task[None]]:
        """Start no more runs, and request the ends of the unfinished runs; return their tasks."""
        self._stopped = True
        self._table.request_ends(StopReason.BY_DRAIN, "its worker leaves")
        self.soon.set()
        return self._table.tasks

    async def break_off(self) -> None:
        """Cancel all runs, and kill the processes; other workers start these runs again."""
        for it, ending in await self._table.break_off("the worker stopped, and the run was ended"):
            if not it.is_lost:
                self._writer.end(EndedRun(it.run, ending))
        self._pool.end()

    async def hand_back(self) -> None:
        """Write the ends of all runs.

        errors:  StoreUnavailable  the outcome is unknown: the leases expire later
        """
        until_s = time.monotonic() + CLOSE_S
        await self._writer.write_ends()
        while self._table.ending and time.monotonic() < until_s:  # retry while clients' transactions lock the jobs
            await asyncio.sleep(CLOSE_S / 10)
            await self._writer.write_ends()

    def _log_repaired(self, repairs: Mapping[str, str]) -> None:
        for job, repair in repairs.items():
            self._log.warning("job repaired", job=job, repair=repair)

    @property
    def _free(self) -> tuple[int, int]:
        return self._pool.capacity, self._pool.reserving_capacity

    def _wait_s(self, *, has_ended: bool = False) -> float:
        return self._planner.wait_s(time.monotonic(), free=self._free, ahead=self._pool.prefetch, has_ended=has_ended)

    async def _begin(self) -> None:
        sent_s = time.monotonic()
        poll = self._planner.begin(sent_s, free=self._free)
        begun = await (self._begin_runs or begin_runs)(
            self._runs,
            self._holder,
            places=self._pool.capacity if self._specs else 0,
            reserving=self._pool.reserving_capacity if self._specs else 0,
            lease_s=self._settings.lease_s,
            # Include the runs that have lost their leases, because their processes may still be running for a moment.
            own=OwnRuns(self._table.timer_keys, self._table.ending),
            page=poll._replace(machine=self._machine),
        )
        self._table.take(begun.runs, now_s=sent_s)
        for run in begun.runs:
            try:
                self._begin_run(run, sent_s)
            except InvalidJob as refusal:
                self._writer.end(EndedRun(run, RunEnding(RunOutcome.FAILED, fails=True, reason=str(refusal))))
            except Exception as error:  # noqa: BLE001 - an error of Ray must not stop the other runs of this answer
                ending = RunEnding(RunOutcome.INTERRUPTED, delay_s=START_AGAIN_S, reason=not_started(error))
                self._writer.end(EndedRun(run, ending))
        self._planner.record(time.monotonic(), begun, poll=poll, free=self._pool.capacity)

    def _begin_run(self, run: BegunRun, sent_s: float) -> None:
        if run.crashed:
            self._end_crashed(run)
        elif run.function not in self._specs:
            why = "this worker's app does not have the job's code"
            self._writer.end(EndedRun(run, RunEnding(RunOutcome.INTERRUPTED, delay_s=NO_CODE_S, reason=why)))
        else:
            self._make(run, read_policy(run.policy), sent_s)

    def _end_crashed(self, run: BegunRun) -> None:
        try:
            policy = read_policy(run.policy)
        except InvalidJob:
            # The policy became invalid after the start of the run; the crash must be recorded nevertheless.
            policy = read_policy("{}")
        reason = "its worker was lost"
        may_live_s = run.lease_left.total_seconds()
        ending = crash_of(reason, policy, attempt=run.attempt, may_live_s=may_live_s, jitter=self._jitter)
        self._log.warning("run crashed", job=run.job, run=run.run_id, attempt=run.attempt, reason=reason)
        self._writer.end(EndedRun(run, ending))

    def _make(self, run: BegunRun, policy: JobPolicy, sent_s: float) -> None:
        needs = RunResources.of(self._specs[run.function].priority, policy)
        has_node = self._has_node(needs)
        if not has_node and self._table.awaits_node:
            # Only one run waits for a node: an autoscaler adds a node for a waiting actor, and one waiting actor is
            # sufficient.
            reason = f"no node has {needs}, and another run waits for a node"
            self._writer.end(EndedRun(run, RunEnding(RunOutcome.INTERRUPTED, delay_s=NO_NODE_S, reason=reason)))
            return
        live = LiveRun(
            run,
            policy,
            lease_until_s=sent_s + self._settings.lease_s - MARGIN_S,
            on_call=lambda it: self._writer.call(it.run),
            on_end_request=lambda it, why: self._writer.terminate(it.run, why),
            jitter=self._jitter,
        )
        self._pool.acquire(needs, live)
        if live.process is None:
            asyncio.get_running_loop().call_later(BUSY_S, self._pool.hurry, live)
        self._table.make(live, self._run(live, needs), awaits_node=not has_node)

    async def _run(self, live: LiveRun, needs: RunResources) -> None:
        ended = await live.make()
        self._table.end_making(live.run.claim)
        if live.is_lost or not live.is_called:
            self._table.forget_call(live.run)
        if not live.is_lost:
            # record the end before calls that may fail: otherwise the job could wait for this run's end for ever
            self._writer.end(ended)
            self._log_failed(live.run, ended.ending)
        if live.process is None:
            self._pool.withdraw(live, timed_out=live.has_timed_out)
        else:
            is_reusable = live.is_reusable and not live.is_lost
            took_s = ended.duration_s if is_reusable and live.is_called else None
            self._pool.release(needs, live.process, is_reusable=is_reusable, took_s=took_s)

    def _log_failed(self, run: BegunRun, ending: RunEnding) -> None:
        if ending.outcome in (RunOutcome.FAILED, RunOutcome.TIMED_OUT, RunOutcome.CRASHED):
            self._log.warning(
                "run failed",
                job=run.job,
                run=run.run_id,
                attempt=run.attempt,
                outcome=ending.outcome.value,
                reason=ending.reason,
                traceback=ending.traceback,
            )
