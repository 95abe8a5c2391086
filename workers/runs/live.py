"""Execute one run."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

from shardclock import CallOutcome, Canceled, JobPolicy, RunOrder
from shardclock.backoff import Jitter
from shardclock.reason import reason_of
from shardclock_server.jobs.next_attempt import RunEnding, StopReason, crash_of, ending_of, too_long
from shardclock_server.jobs.states import RunOutcome
from shardclock_server.sql.jobs.runs import BegunRun, EndedRun
from shardclock_server.workers.run_resources import RunResources
from shardclock_server.workers.runs.lifetime import Lifetime
from shardclock_server.workers.runs.process import RunProcess
from shardclock_server.workers.runs.report import RunReport
from shardclock_server.workers.user_process import NotCalled, ProcessDied

START_S = 120.0  # the longest wait for a node that has the job's resources, and for the import of the user's code
START_AGAIN_S = 5.0
CANCEL_S = 2.0  # The time within which a process must accept a cancellation.
# The time within which a process must answer a poll. A function that holds Python's global lock delays the answer.
POLL_S = 1.0
# The longest time for which a run waits for a process, if it started before a process was free. After this time another
# worker may start the run.
WAIT_S = 0.1
KILL_S = 1.0  # The time within which a killed process must end.


class LiveRun:
    """Execute one run in a process of the pool.

    `on_call` is called when the job's function starts, and `on_end_request` when the run must end, with the reason.
    """

    def __init__(
        self,
        run: BegunRun,
        policy: JobPolicy,
        *,
        lease_until_s: float,
        on_call: Callable[["LiveRun"], None],
        on_end_request: Callable[["LiveRun", str], None],
        jitter: Jitter = random.uniform,
    ) -> None:
        self.run = run
        self.policy = policy
        self.process: RunProcess | None = None
        self.life = Lifetime(lease_until_s)
        self.is_reusable = False  # the process can execute another run
        self.is_lost = False
        self.is_called = False
        self.report = RunReport()
        self._end_request: StopReason | None = None
        self._end_reason = ""
        # A future instead of an event, because each wait for an event would need a task.
        self._end_requested = asyncio.get_running_loop().create_future()
        self._has_process = asyncio.Event()
        self._refused: str | None = None
        self.has_timed_out = False  # no process became free for the run within `WAIT_S`
        self._on_call = on_call
        self._was_used = False
        self._began_s = time.monotonic()
        self._on_end_request = on_end_request
        self._jitter = jitter
        self._polling: asyncio.Task[None] | None = None

    def receive(self, process: RunProcess, *, was_used: bool) -> None:
        """Assign a process to the run; `was_used`: the process has already executed another run."""
        self.process, self._was_used = process, was_used
        self._began_s = time.monotonic()
        self._has_process.set()

    def refuse(self, reason: str) -> None:
        """End the run, because no process can be started for it."""
        self._refused = reason
        self._has_process.set()

    def request_end(self, why: StopReason, reason: str) -> None:
        """Request the end of the run; only the first request has an effect."""
        if self._end_request is None:
            self._end_request, self._end_reason = why, reason
            self._end_waits()

    def lose(self) -> None:
        """Kill the process, because another worker has claimed the run, or may claim it soon."""
        self.is_lost = True  # the outcome of a lost run is not written
        if self.process is not None:
            self.process.kill()
        self._end_waits()

    async def make(self) -> EndedRun:
        """Execute the run and return its outcome, even if the process dies or does not start."""
        try:
            ending = await self._run()
        except ProcessDied as error:
            ending = self._died(str(error), may_live=error.may_live)
        except NotCalled:
            self.is_called = False
            ending = self._died("the process had ended", may_live=False)
        except Exception as error:  # noqa: BLE001 - without an outcome the job would stay marked for ever
            ending = self._died(reason_of(error), may_live=True)
        finally:
            if self._polling is not None:
                self._polling.cancel()
        took_s, seen = time.monotonic() - self._began_s, self.report.seen
        return EndedRun(self.run, ending, took_s, seen.log or None, progress=seen.progress, message=seen.message)

    async def break_off(self, why: str) -> RunEnding:
        """Kill the process, because the worker stops; return the run's outcome."""
        is_late = self._end_request is StopReason.BY_TIMEOUT
        ending = (
            self._ending_of(Canceled(why)) if is_late else RunEnding(RunOutcome.INTERRUPTED, delay_s=0.0, reason=why)
        )
        if self.process is None:
            return ending
        # The kill may fail to reach the process. In this case the process exits by itself after KILL_S.
        self.life.ends_by_s = min(self.life.ends_by_s, time.monotonic() + KILL_S)
        if self.is_called:
            await self._poll(self.process)
        self.process.kill()
        return replace(ending, rest_s=max(KILL_S, self.life.may_live_s))

    def poll(self) -> None:
        """Start a poll of the run's report; the poll also extends the lifetime of the process."""
        if self.process is not None and self.is_called and (self._polling is None or self._polling.done()):
            self._polling = asyncio.create_task(self._poll(self.process))

    async def _run(self) -> RunEnding:
        if self.process is None:
            await self._within(WAIT_S, self._has_process.wait())
        # The result of `_within` is not sufficient: the run may have received a process at the moment of the timeout.
        if self.process is None:
            return self._without_process()
        if self.is_lost or self._end_request is not None:
            self.is_reusable = self._was_used
            return self._ending_of(Canceled("the run had not begun"))
        return await self._run_in(self.process)

    def _without_process(self) -> RunEnding:
        if self._refused is not None:
            return RunEnding(RunOutcome.INTERRUPTED, delay_s=START_AGAIN_S, reason=self._refused)
        if self.is_lost or self._end_request is not None:
            return self._ending_of(Canceled("the run had not begun"))
        self.has_timed_out = True
        return RunEnding(RunOutcome.INTERRUPTED, delay_s=0.0, reason=f"no process was free within {WAIT_S:g} s")

    async def _run_in(self, process: RunProcess) -> RunEnding:
        if not await self._within(START_S, process.ready()):
            if self._end_request is not None:
                return self._ending_of(Canceled("the run had not begun"))
            needs = RunResources.of(0, self.policy)
            asked = f"; it asks Ray for {needs}" if needs.reserves_any else ""
            reason = f"its process was not ready within {START_S:g} s{asked}"
            return RunEnding(RunOutcome.INTERRUPTED, delay_s=START_AGAIN_S, reason=reason)
        if not self.life.left_s:
            # The worker's process was suspended until the run's lease expired. The statement that stores the end checks
            # the claim.
            return RunEnding(RunOutcome.INTERRUPTED, delay_s=0.0, reason="the lease of the run expired before the call")
        self.is_called = True
        self._on_call(self)
        run = self.run
        limit_s = self.policy.max_runtime_s
        order = RunOrder(run.job, run.function, run.run_id, run.attempt, run.scheduled_at, run.config, limit_s)
        call = asyncio.ensure_future(process.run(order, lives_s=self.life.grant()))
        try:
            if not await self._within(limit_s, call):
                if self.is_lost:
                    raise ProcessDied("its run was lost")
                await self._cancel(process)
                # If the kill below fails, the process exits when its lifetime ends.
                self.life.ends_by_s = time.monotonic() + self.policy.grace_s + KILL_S
                done, _ = await asyncio.wait([call], timeout=self.policy.grace_s)
                if not done:
                    process.kill()
                    killed = Canceled(f"the run did not end within {self.policy.grace_s:g} s, and was killed")
                    return replace(self._ending_of(killed), rest_s=self.life.may_live_s)
            outcome, self.report.seen = call.result()
        finally:
            call.cancel()
        self.is_reusable = True
        return self._ending_of(outcome)

    async def _within(self, timeout_s: float, work: Awaitable[object]) -> bool:
        """Wait until `work` has ended, the timeout has passed, or the run must end; return whether `work` has ended.

        errors:  ProcessDied  the work failed
        """
        working = asyncio.ensure_future(work)
        try:
            if not working.done():  # asyncio.wait takes three iterations of the event loop, also for finished work
                await asyncio.wait(
                    [working, self._end_requested], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
                )
            if working.done():
                working.result()
                return True
            return False
        finally:
            if working is not work and not working.done():
                working.cancel()

    def _end_waits(self) -> None:
        if not self._end_requested.done():
            self._end_requested.set_result(None)

    async def _cancel(self, process: RunProcess) -> None:
        if self._end_request is None:
            self.request_end(StopReason.BY_TIMEOUT, too_long(self.policy))
        self._on_end_request(self, self._end_reason)
        try:
            async with asyncio.timeout(CANCEL_S):
                await process.cancel()
        except (TimeoutError, ProcessDied):
            # The job's function holds Python's global lock, or the process has ended. The run then ends after the grace
            # period, or with the call's error.
            return

    async def _poll(self, process: RunProcess) -> None:
        try:
            async with asyncio.timeout(POLL_S):
                granted_s = self.life.grant()
                self.report.seen = await process.poll(lives_s=granted_s)
                self.life.was_granted(granted_s)
        except (TimeoutError, ProcessDied):
            return  # the call of the run returns the outcome or raises the error

    def _ending_of(self, outcome: CallOutcome) -> RunEnding:
        ending = ending_of(
            outcome, self.policy, attempt=self.run.attempt, stop_reason=self._end_request, jitter=self._jitter
        )
        if ending.outcome is RunOutcome.CANCELED and self._end_reason:
            return RunEnding(RunOutcome.CANCELED, reason=f"{self._end_reason}; {ending.reason}")
        return ending

    def _died(self, how: str, *, may_live: bool) -> RunEnding:
        left_s = self.life.may_live_s if may_live else 0.0
        if self._end_request is not None:
            return replace(self._ending_of(Canceled(how)), rest_s=left_s)
        if self._was_used and not self.is_called:
            return RunEnding(RunOutcome.INTERRUPTED, delay_s=0.0, reason=f"{how} while it was idle")
        return crash_of(how, self.policy, attempt=self.run.attempt, may_live_s=left_s, jitter=self._jitter)
