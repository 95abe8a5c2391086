"""One run, from its begin to its end: it is started, told to end, or killed."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

from shardclock import CallOutcome, Canceled, JobPolicy, RunOrder
from shardclock.reason import reason_of
from shardclock_server.jobs.ending import Asked, Ending, Jitter, crash_of, ending_of, too_long
from shardclock_server.jobs.states import RunOutcome
from shardclock_server.sql.jobs.runs import BegunRun, EndedRun
from shardclock_server.workers.needs import Needs
from shardclock_server.workers.runs.lifetime import Lifetime
from shardclock_server.workers.runs.process import RunProcess
from shardclock_server.workers.runs.report import RunReport
from shardclock_server.workers.user_process import NotCalled, ProcessDied

START_S = 120.0  # for the import of the user's code, and for a node that has what the job asks for
START_AGAIN_S = 5.0
TELL_S = 2.0  # for a process to take the word to end
LOOK_S = 1.0  # for the answer to a look; a function that keeps Python's lock answers later
WAIT_S = 0.1  # for a process, if the run was begun ahead; its start may be made elsewhere meanwhile
KILL_S = 1.0  # for a kill to end a process


class LiveRun:
    """Make one run in a process that is lent for it.

    `called` hears that the run's function begins, `ends` that the run was told to end, and why.
    """

    def __init__(
        self,
        run: BegunRun,
        policy: JobPolicy,
        *,
        lease_until_s: float,
        called: Callable[["LiveRun"], None],
        ends: Callable[["LiveRun", str], None],
        jitter: Jitter = random.uniform,
    ) -> None:
        self.run = run
        self.policy = policy
        self.process: RunProcess | None = None
        self.life = Lifetime(lease_until_s)
        self.is_well = False  # its process can make another run
        self.is_lost = False
        self.is_called = False
        self.report = RunReport()
        self._asked: Asked | None = None
        self._asked_why = ""
        # No event: to wait for one takes a task, and each run waits several times.
        self._is_asked = asyncio.get_running_loop().create_future()
        self._is_lent = asyncio.Event()
        self._refused: str | None = None
        self.has_waited_in_vain = False  # for a process
        self._tells_called = called
        self._was_used = False
        self._began_s = time.monotonic()
        self._ends = ends
        self._jitter = jitter
        self._looking: asyncio.Task[None] | None = None

    def lend(self, process: RunProcess, *, was_used: bool) -> None:
        """Make the run in this process; `was_used` says that it has made other runs."""
        self.process, self._was_used = process, was_used
        self._began_s = time.monotonic()
        self._is_lent.set()

    def refuse(self, reason: str) -> None:
        """Hear that no process can be started for it."""
        self._refused = reason
        self._is_lent.set()

    def ask(self, why: Asked, reason: str) -> None:
        """Ask it to end; the first reason counts."""
        if self._asked is None:
            self._asked, self._asked_why = why, reason
            self._end_waits()

    def lose(self) -> None:
        """End its process at once: the run is somebody else's now, or may soon be."""
        self.is_lost = True  # nobody asks any more how it ended
        if self.process is not None:
            self.process.kill()
        self._end_waits()

    async def make(self) -> EndedRun:
        """Make the run; whatever its process does, this returns how it ended."""
        try:
            ending = await self._made()
        except ProcessDied as error:
            ending = self._died(str(error), may_live=error.may_live)
        except NotCalled:
            self.is_called = False
            ending = self._died("its process had ended", may_live=False)
        except Exception as error:  # noqa: BLE001 - whatever it is, the run must not stay marked for ever
            ending = self._died(reason_of(error), may_live=True)
        finally:
            if self._looking is not None:
                self._looking.cancel()
        took_s, seen = time.monotonic() - self._began_s, self.report.seen
        return EndedRun(self.run, ending, took_s, seen.log or None, progress=seen.progress, message=seen.message)

    async def break_off(self, why: str) -> Ending:
        """End its process, as its worker leaves, and decide what follows."""
        is_late = self._asked is Asked.BY_TIMEOUT
        ending = self._judged(Canceled(why)) if is_late else Ending(RunOutcome.INTERRUPTED, delay_s=0.0, reason=why)
        if self.process is None:
            return ending
        # A kill may not reach it. It ends itself, sooner if it hears now that it is to.
        self.life.ends_by_s = min(self.life.ends_by_s, time.monotonic() + KILL_S)
        if self.is_called:
            await self._look(self.process)
        self.process.kill()
        return replace(ending, rest_s=max(KILL_S, self.life.rest_s))

    def look(self) -> None:
        """Begin to look at what the run has said; this also lets its process live on."""
        if self.process is not None and self.is_called and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(self._look(self.process))

    async def _made(self) -> Ending:
        if self.process is None:
            await self._within(WAIT_S, self._is_lent.wait())
        # Not whether the wait has ended: a process may have been lent in the moment in which the time was over.
        if self.process is None:
            return self._not_lent()
        if self.is_lost or self._asked is not None:
            self.is_well = self._was_used
            return self._judged(Canceled("it had not begun"))
        return await self._made_in(self.process)

    def _not_lent(self) -> Ending:
        if self._refused is not None:
            return Ending(RunOutcome.INTERRUPTED, delay_s=START_AGAIN_S, reason=self._refused)
        if self.is_lost or self._asked is not None:
            return self._judged(Canceled("it had not begun"))
        self.has_waited_in_vain = True
        return Ending(RunOutcome.INTERRUPTED, delay_s=0.0, reason=f"no process was free within {WAIT_S:g} s")

    async def _made_in(self, process: RunProcess) -> Ending:
        if not await self._within(START_S, process.ready()):
            if self._asked is not None:
                return self._judged(Canceled("it had not begun"))
            needs = Needs.of(0, self.policy)
            asked = f"; it asks Ray for {needs}" if needs.are_special else ""
            reason = f"its process was not ready within {START_S:g} s{asked}"
            return Ending(RunOutcome.INTERRUPTED, delay_s=START_AGAIN_S, reason=reason)
        if not self.life.left_s:
            # Its worker stood still for so long; whether the run is still its own, the end finds out.
            return Ending(RunOutcome.INTERRUPTED, delay_s=0.0, reason="its lease was over before it was called")
        self.is_called = True
        self._tells_called(self)
        run = self.run
        order = RunOrder(run.job, run.function, run.run_id, run.attempt, run.scheduled_at, run.config)
        call = asyncio.ensure_future(process.run(order, lives_s=self.life.grant()))
        try:
            if not await self._within(self.policy.max_runtime_s, call):
                if self.is_lost:
                    raise ProcessDied("its run was lost")
                await self._tell_to_end(process)
                # It ends itself if the kill does not reach it.
                self.life.ends_by_s = time.monotonic() + self.policy.grace_s + KILL_S
                done, _ = await asyncio.wait([call], timeout=self.policy.grace_s)
                if not done:
                    process.kill()
                    killed = Canceled(f"it did not end within {self.policy.grace_s:g} s, and was killed")
                    return replace(self._judged(killed), rest_s=self.life.rest_s)
            outcome, self.report.seen = call.result()
        finally:
            call.cancel()
        self.is_well = True
        return self._judged(outcome)

    async def _within(self, timeout_s: float, work: Awaitable[object]) -> bool:
        """Wait until a work has ended, but no longer than this, and not once the run was asked to end.

        errors:  ProcessDied  the work failed
        """
        working = asyncio.ensure_future(work)
        try:
            if not working.done():  # asyncio.wait takes three turns of the loop for a work that is done, too
                await asyncio.wait([working, self._is_asked], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()
                return True
            return False
        finally:
            if working is not work and not working.done():
                working.cancel()

    def _end_waits(self) -> None:
        if not self._is_asked.done():
            self._is_asked.set_result(None)

    async def _tell_to_end(self, process: RunProcess) -> None:
        if self._asked is None:
            self.ask(Asked.BY_TIMEOUT, too_long(self.policy))
        self._ends(self, self._asked_why)
        try:
            async with asyncio.timeout(TELL_S):
                await process.cancel()
        except (TimeoutError, ProcessDied):
            return  # it keeps Python's lock, or is gone; the call of the run, or the grace, decides

    async def _look(self, process: RunProcess) -> None:
        try:
            async with asyncio.timeout(LOOK_S):
                granted_s = self.life.grant()
                self.report.seen = await process.look(lives_s=granted_s)
                self.life.was_granted(granted_s)
        except (TimeoutError, ProcessDied):
            return  # the call of the run says what became of it

    def _judged(self, outcome: CallOutcome) -> Ending:
        ending = ending_of(outcome, self.policy, attempt=self.run.attempt, asked=self._asked, jitter=self._jitter)
        if ending.outcome is RunOutcome.CANCELED and self._asked_why:
            return Ending(RunOutcome.CANCELED, reason=f"{self._asked_why}; {ending.reason}")
        return ending

    def _died(self, how: str, *, may_live: bool) -> Ending:
        left_s = self.life.rest_s if may_live else 0.0
        if self._asked is not None:
            return replace(self._judged(Canceled(how)), rest_s=left_s)
        if self._was_used and not self.is_called:
            return Ending(RunOutcome.INTERRUPTED, delay_s=0.0, reason=f"{how}, while it waited for a run")
        return crash_of(how, self.policy, attempt=self.run.attempt, may_live_s=left_s, jitter=self._jitter)
