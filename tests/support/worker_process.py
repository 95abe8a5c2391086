"""Run one worker in this process, so that a test can kill or freeze it: python -m tests.support.worker_process.

Its handlers and jobs have processes of their own, as on Ray, which it speaks to through pipes: they end with it.

argv:    the holder, the module of the app, its handlers as JSON, and the DSN; or these, its jobs as JSON, and
         settings as JSON
exit:    0 after a drain (SIGTERM), 3 when the holder was ended
"""

from __future__ import annotations

import asyncio
import itertools
import json
import pickle
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from subprocess import PIPE
from typing import Any

import structlog

from shardclock import COMPLETED, CallOutcome, RunOrder, Seen
from shardclock_server.jobs.spec import JobSpec
from shardclock_server.keepers.heartbeat import HolderEnded
from shardclock_server.sql.cluster.holders import WORKER
from shardclock_server.sql.deliveries.claim import ClaimedDelivery
from shardclock_server.workers.handler import HandlerSpec
from shardclock_server.workers.needs import Needs
from shardclock_server.workers.process import CallResult, envelope_of
from shardclock_server.workers.settings import WorkerSettings
from shardclock_server.workers.user_process import ProcessDied
from shardclock_server.workers.worker import Worker
from tests.support.handler_process import LENGTH, READY, framed
from tests.support.handlers import policy_of
from tests.support.shard_pool import incarnation

HOLDER_ENDED = 3


class PipedProcess:
    """One handler's process at the other end of two pipes."""

    def __init__(self, spec: HandlerSpec, *, app: str) -> None:
        self._command = [sys.executable, "-m", "tests.support.handler_process", app, spec.target]
        self._process: asyncio.subprocess.Process | None = None
        self._listening: asyncio.Task[None] | None = None
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._numbers = itertools.count()
        self._how = ""

    async def ready(self) -> None:
        """Start the process, and wait until it has imported the app.

        errors:  ProcessDied  it can't be imported
        """
        self._process = await asyncio.create_subprocess_exec(*self._command, stdin=PIPE, stdout=PIPE)
        self._listening = asyncio.create_task(self._listen(self._process))
        await self._ask(READY)

    async def call(self, deliveries: Sequence[ClaimedDelivery]) -> CallResult:
        """Call the handler for each delivery.

        errors:  ProcessDied  the process ended before it answered
        """
        outcomes, took_s = await self._ask([envelope_of(it) for it in deliveries])
        return CallResult([COMPLETED if outcome is None else outcome for outcome in outcomes], took_s)

    async def gone(self) -> None:
        """Wait until the process has ended.

        errors:  ProcessDied  it has ended
        """
        assert self._listening is not None, "it was started"
        await asyncio.wait([self._listening])
        raise ProcessDied(self._how)

    def kill(self) -> None:
        """End the process at once."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    async def _ask(self, question: object) -> Any:
        assert self._process is not None
        assert self._process.stdin is not None
        if self._how:
            raise ProcessDied(self._how)
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        self._process.stdin.write(framed((number, question)))
        try:
            return await answer
        finally:
            del self._answers[number]

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        """Pass on each answer to who waits for it, until the process ends."""
        assert process.stdout is not None
        try:
            while True:
                (size,) = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))
                number, answer = pickle.loads(await process.stdout.readexactly(size))
                if (waiting := self._answers.get(number)) and not waiting.done():
                    waiting.set_result(answer)
        except asyncio.IncompleteReadError:
            self._how = f"the handler's process ended: exit code {await process.wait()}"
        for waiting in self._answers.values():
            if not waiting.done():
                waiting.set_exception(ProcessDied(self._how))


class PipedRunProcess(PipedProcess):
    """One run's process at the other end of two pipes."""

    def __init__(self, _: Needs, *, app: str) -> None:
        super().__init__(HandlerSpec("job", "", is_async=False, takes_batch=False, policy=policy_of()), app=app)
        self._command = [sys.executable, "-m", "tests.support.run_process", app]

    async def ready(self) -> None:
        """Start the process, unless it has made a run before.

        errors:  ProcessDied  it can't be imported
        """
        if self._process is None:
            await super().ready()

    async def run(self, order: RunOrder, *, lives_s: float) -> tuple[CallOutcome, Seen]:
        """Make a run.

        errors:  ProcessDied  the process ended before the run did
        """
        outcome, seen = await self._ask(("run", order, lives_s))
        return outcome, seen

    async def look(self, *, lives_s: float) -> Seen:
        """Say what the run has said so far."""
        seen: Seen = await self._ask(("look", lives_s))
        return seen

    async def cancel(self) -> None:
        """Tell the run to end."""
        await self._ask(("cancel",))


async def _main(holder: int, app: str, handlers: list[dict[str, Any]], dsn: str, *more: str) -> int:
    jobs, settings = more or ("[]", "{}")
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    worker = Worker(
        replace(incarnation(), holder=holder, role=WORKER),
        WorkerSettings(**{"webhook_http": True, "webhook_allow": "127.0.0.0/8"} | json.loads(settings)),
        [HandlerSpec.of(it) for it in handlers],
        dsn,
        start=partial(PipedProcess, app=app),
        jobs=[JobSpec.of(it) for it in json.loads(jobs)],
        start_run=partial(PipedRunProcess, app=app),
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: asyncio.ensure_future(worker.drain()))
    try:
        await worker.run()
    except HolderEnded:
        return HOLDER_ENDED
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(_main(int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]), *sys.argv[4:])))
