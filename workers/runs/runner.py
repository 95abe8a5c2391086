"""All runs that a worker makes: it begins them, has them watched, and ends them."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from shardclock import JobPolicy
from shardclock_server.jobs.ending import Asked, Ending, crash_of
from shardclock_server.jobs.policy import read_policy
from shardclock_server.jobs.spec import InvalidJob, JobSpec
from shardclock_server.jobs.states import RunOutcome
from shardclock_server.keepers.keeper import Loop, Part
from shardclock_server.keepers.registration import Registration
from shardclock_server.sql.jobs.declare import FORGOTTEN_MAX, MENDED_MAX, mend_job_waits, prune_runs, tend_jobs
from shardclock_server.sql.jobs.runs import BegunRun, EndedRun, RunsInHand, begin_runs
from shardclock_server.workers.needs import Needs
from shardclock_server.workers.runs.lifetime import MARGIN_S
from shardclock_server.workers.runs.live import START_AGAIN_S, LiveRun
from shardclock_server.workers.runs.look_planner import LookPlanner
from shardclock_server.workers.runs.places import BUSY_S, Places, not_started
from shardclock_server.workers.runs.process import RunProcess
from shardclock_server.workers.runs.table import RunTable
from shardclock_server.workers.runs.watch import RunWatch
from shardclock_server.workers.runs.writer import RunWriter
from shardclock_server.workers.surroundings import Surroundings

TEND_S = 30.0
PRUNE_S = 60.0
NOT_HERE_S = 5.0  # before a start whose code this worker lacks is begun again, if possible by another worker
NO_NODE_S = 30.0  # before a start for which no node has what it needs is begun again
CLOSE_S = 0.5  # for ends of runs with locked jobs, when the worker leaves


@dataclass(frozen=True, slots=True)
class RunLimits:
    """How many runs there are at a time of each kind, and how long a silent worker keeps its runs."""

    places: int
    lease_s: float
    poll_s: float


class JobRunner(Part):
    """Make runs of an app's jobs: of each job one at a time, and no more at a time than there are places."""

    def __init__(
        self,
        registration: Registration,
        specs: Sequence[JobSpec],
        settings: RunLimits,
        *,
        start: Callable[[Needs], RunProcess],
        surroundings: Surroundings,
    ) -> None:
        around, session, log = surroundings, registration.session, registration.log
        holder = self._holder = registration.holder
        self._heartbeat = registration.heartbeat
        self.soon = asyncio.Event()
        self._specs = {spec.reference: spec for spec in specs}
        self._settings = settings
        self._places = Places(settings.places, start=start, ahead_max=around.ahead_max)
        self._planner = LookPlanner(settings.poll_s, settings.places)
        self._runs, self._tends = session("runs"), session("tends")
        self._table = RunTable(settings.lease_s)
        self._writer = RunWriter(self._runs, holder, self._table, self.soon, log=log)
        self.watch = RunWatch(session("watches"), holder, self._table, log=log)
        self._log = log
        self._jitter = around.jitter
        self._has_node = around.has_node
        self._prune_at_s = 0.0
        self._stopped = False

    def __len__(self) -> int:
        """Count the runs in hand."""
        return len(self._table)

    def loops(self) -> Sequence[Loop]:
        """List the loops of runs; without jobs, the one that maintains the table of jobs."""
        tends = Loop("tends", self.tend_turn)
        if not self.has_jobs:
            return [tends]
        return [Loop("runs", self.run_turn, self.soon), Loop("watches", self.watch.turn), tends]

    @property
    def has_jobs(self) -> bool:
        """Say whether the app has any."""
        return bool(self._specs)

    def hint(self) -> None:
        """Look soon: a start of a job is due."""
        wait_s = self._planner.hint(time.monotonic())
        if wait_s:
            asyncio.get_running_loop().call_later(wait_s, self.look_soon)
        elif wait_s is not None:
            self.look_soon()

    def look_soon(self) -> None:
        """Look in the next turn, and make it soon."""
        self._planner.ask()
        self.soon.set()

    async def run_turn(self) -> float:
        """Make one turn of the runs' loop: end runs of jobs that have ended, and begin those that are due."""
        return await self.turn(may_begin=self._heartbeat.began)

    async def turn(self, *, may_begin: bool) -> float:
        """Write what runs do now, end those that have ended, and begin others.

        units:   returns the seconds to wait before the next turn
        """
        self.soon.clear()
        await self._writer.write_advances()
        is_leaving = self._stopped or not may_begin
        is_to_look = not self._wait_s()
        # Ends come first: a look begins no start of a job that still has a run.
        is_to_end = is_leaving or is_to_look or not self._writer.is_gathering
        has_ended = is_to_end and await self._writer.write_ends()
        if is_leaving:
            return self._settings.poll_s
        if is_to_look or not self._wait_s(has_ended=has_ended):
            await self._begin()
        return self._wait_s()

    async def tend_turn(self) -> float:
        """Keep the table of jobs whole, and forget old runs, if this worker keeps the first part.

        Without jobs it also ends runs that have crashed and drops what waits: the app before may have left them.
        """
        if not self._specs:
            await self._begin()
            await self._writer.write_ends()
        mended = await mend_job_waits(self._tends, self._holder)
        self._tell_repaired(mended)
        if len(mended) == MENDED_MAX:
            return 0.0
        self._tell_repaired(await tend_jobs(self._tends, self._holder))  # a next start counts from what was mended
        now_s = time.monotonic()
        if now_s >= self._prune_at_s:
            if await prune_runs(self._tends, self._holder) == FORGOTTEN_MAX:
                return 0.0
            self._prune_at_s = now_s + PRUNE_S
        return TEND_S

    async def until_ended(self) -> None:
        """Wait until no run is under way, and write how all of them ended."""
        while (tasks := self._table.tasks) or self._table.ending:
            if tasks:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            await self.turn(may_begin=False)

    def stop(self) -> None:
        """End the wait of the loop."""
        self.look_soon()

    def end_calls(self) -> set[asyncio.Task[None]]:
        """Begin no more, and ask the runs that are under way to end; return them."""
        self._stopped = True
        self._table.ask_all(Asked.BY_DRAIN, "its worker leaves")
        self.soon.set()
        return self._table.tasks

    async def break_off(self) -> None:
        """End what still runs, and its processes; its starts are made again by others."""
        for it, ending in await self._table.break_off("its worker left, and it was broken off"):
            if not it.is_lost:
                self._writer.end(EndedRun(it.run, ending))
        self._places.end()

    async def hand_back(self) -> None:
        """Write how all runs have ended.

        errors:  StoreUnavailable  the outcome is unknown: the leases run out by themselves
        """
        until_s = time.monotonic() + CLOSE_S
        await self._writer.write_ends()
        while self._table.ending and time.monotonic() < until_s:  # clients have locked their jobs
            await asyncio.sleep(CLOSE_S / 10)
            await self._writer.write_ends()

    def _tell_repaired(self, repairs: Mapping[str, str]) -> None:
        for job, repair in repairs.items():
            self._log.warning("job repaired", job=job, repair=repair)

    @property
    def _free(self) -> tuple[int, int]:
        return self._places.room, self._places.room_reserving

    def _wait_s(self, *, has_ended: bool = False) -> float:
        return self._planner.wait_s(time.monotonic(), free=self._free, ahead=self._places.ahead, has_ended=has_ended)

    async def _begin(self) -> None:
        sent_s = time.monotonic()
        look = self._planner.begin(sent_s, free=self._free)
        begun = await begin_runs(
            self._runs,
            self._holder,
            places=self._places.room if self._specs else 0,
            reserving=self._places.room_reserving if self._specs else 0,
            lease_s=self._settings.lease_s,
            # A lost run has left the hand, and its process may live for a moment.
            hand=RunsInHand(self._table.timer_keys, self._table.ending),
            look=look,
        )
        self._table.take(begun.runs, now_s=sent_s)
        for run in begun.runs:
            try:
                self._take(run, sent_s)
            except InvalidJob as refusal:
                self._writer.end(EndedRun(run, Ending(RunOutcome.FAILED, fails=True, reason=str(refusal))))
            except Exception as error:  # noqa: BLE001 - whatever Ray says, the other runs of this answer have begun
                ending = Ending(RunOutcome.INTERRUPTED, delay_s=START_AGAIN_S, reason=not_started(error))
                self._writer.end(EndedRun(run, ending))
        self._planner.learn(time.monotonic(), begun, look=look, free=self._places.room)

    def _take(self, run: BegunRun, sent_s: float) -> None:
        if run.crashed:
            self._find_crashed(run)
        elif run.function not in self._specs:
            why = "this worker's app does not have its code"
            self._writer.end(EndedRun(run, Ending(RunOutcome.INTERRUPTED, delay_s=NOT_HERE_S, reason=why)))
        else:
            self._make(run, read_policy(run.policy), sent_s)

    def _find_crashed(self, run: BegunRun) -> None:
        try:
            policy = read_policy(run.policy)
        except InvalidJob:
            policy = read_policy("{}")  # it was changed since the run began, which is a crash whatever it says now
        reason = "its worker was lost"
        may_live_s = run.lease_left.total_seconds()
        ending = crash_of(reason, policy, attempt=run.attempt, may_live_s=may_live_s, jitter=self._jitter)
        self._log.warning("run crashed", job=run.job, run=run.run_id, attempt=run.attempt, reason=reason)
        self._writer.end(EndedRun(run, ending))

    def _make(self, run: BegunRun, policy: JobPolicy, sent_s: float) -> None:
        needs = Needs.of(self._specs[run.function].priority, policy)
        has_node = self._has_node(needs)
        if not has_node and self._table.awaits_node:
            # An autoscaler may bring a node, but only for what waits: one does.
            reason = f"no node has {needs}, and another run waits in its place for a node to come"
            self._writer.end(EndedRun(run, Ending(RunOutcome.INTERRUPTED, delay_s=NO_NODE_S, reason=reason)))
            return
        live = LiveRun(
            run,
            policy,
            lease_until_s=sent_s + self._settings.lease_s - MARGIN_S,
            called=lambda it: self._writer.call(it.run),
            ends=lambda it, why: self._writer.terminate(it.run, why),
            jitter=self._jitter,
        )
        self._places.take(needs, live)
        if live.process is None:
            asyncio.get_running_loop().call_later(BUSY_S, self._places.hurry, live)
        self._table.make(live, self._made(live, needs), awaits_node=not has_node)

    async def _made(self, live: LiveRun, needs: Needs) -> None:
        ended = await live.make()
        self._table.end_making(live.run.claim)
        if live.is_lost or not live.is_called:
            self._table.uncall(live.run)
        if not live.is_lost:
            self._writer.end(ended)  # before anything that may fail: else its job would wait for this end for ever
            self._tell_failed(live.run, ended.ending)
        if live.process is None:
            self._places.give_up(live, in_vain=live.has_waited_in_vain)
        else:
            is_well = live.is_well and not live.is_lost
            took_s = ended.duration_s if is_well and live.is_called else None
            self._places.give_back(needs, live.process, is_well=is_well, took_s=took_s)

    def _tell_failed(self, run: BegunRun, ending: Ending) -> None:
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
