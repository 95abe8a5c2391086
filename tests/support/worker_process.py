"""Run one worker in this process, so that a test can kill or freeze it: python -m tests.support.worker_process.

The worker starts the processes of its handlers and jobs, which end with the worker.

argv:    the holder, the module of the app, its handlers as JSON, and the DSN; or these, its jobs as JSON, and
         settings as JSON
exit:    0 after a drain (SIGTERM), 3 when the holder was ended
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import replace
from functools import partial
from typing import Any

from shardclock_server.jobs.spec import JobSpec
from shardclock_server.sql.cluster.holders import WORKER
from shardclock_server.workers.handler import HandlerSpec
from shardclock_server.workers.process import LocalHandlerProcess
from shardclock_server.workers.runs.process import LocalRunProcess
from shardclock_server.workers.settings import WorkerSettings
from shardclock_server.workers.worker import Worker
from tests.support.separate_keeper import log_to_stderr, run_until_drained
from tests.support.shard_pool import incarnation


async def _main(holder: int, app: str, handlers: list[dict[str, Any]], dsn: str, *more: str) -> int:
    jobs, settings = more or ("[]", "{}")
    here = os.getcwd()  # noqa: PTH109 - as the worker was started
    log_to_stderr()
    worker = Worker(
        replace(incarnation(), holder=holder, role=WORKER),
        WorkerSettings(**{"webhook_http": True, "webhook_allow": "127.0.0.0/8"} | json.loads(settings)),
        [HandlerSpec.of(it) for it in handlers],
        dsn,
        start=partial(LocalHandlerProcess, modules=app, directory=here),
        jobs=[JobSpec.of(it) for it in json.loads(jobs)],
        start_run=partial(LocalRunProcess, modules=app, directory=here),
    )
    return await run_until_drained(worker)


if __name__ == "__main__":
    sys.exit(asyncio.run(_main(int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]), *sys.argv[4:])))
