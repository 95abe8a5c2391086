"""Write the functions that Shardclock's timers call, and test them without a cluster.

    @shardclock.on_timer("order.expired", max_attempts=5)
    async def expire(timer: shardclock.Timer) -> None: ...

If a handler returns, its timer is done. If a handler raises an exception, Shardclock calls the handler again later,
according to the handler's policy. `Discard` ends the retries, `RetryIn` sets the pause before the next retry, and
`Partly` retries some timers of a batch. A handler may get the same timer more than once, so its work must be
idempotent.

    @shardclock.job(every="PT15M", max_runtime="PT5M")
    async def refresh(run: shardclock.Run) -> dict: ...

A job runs repeatedly, one run at a time, each run in a separate process.

    async with shardclock.AsyncClient() as client:
        await client.schedule(delay="PT15M", target="order.expired", payload={"order": 42})

`AsyncClient` is a client of the HTTP API, and needs the extra `http`; `Client` has the same methods for programs
without an event loop. `shardclock.http` has the other classes of the HTTP clients.

    shardclock.sql.timers(connection).schedule(delay="PT15M", target="order.expired", payload={"order": 42})

This call schedules the timer in the open transaction of your own connection, after `import shardclock.sql`.
`shardclock.api` has the common classes of the HTTP and SQL clients.

    await shardclock.consume(lambda: asyncpg.connect(DSN), "billing", bill)

`consume` processes each record of the log exactly once, on your own connections; `shardclock.log` describes it.

The modules for handlers:

    handler     declares a handler; `policy`, `durations` and `signature` check its limits and its function
    timer       the argument of a handler
    app         finds the handlers and the jobs of a module
    calling     calls handlers; `payload` parses payloads, `deadline` ends late calls, `ending` limits clients' retries
    outcome     the outcomes of an attempt; `raised`, `result`, `recorded` and `reason` convert exceptions and results
    testing     calls handlers in a user's tests; `stepping` finds a test cluster with a clock that the test moves
    loopback    recognizes this machine
    refusal     the error `InvalidHandler` of an invalid handler or job

The modules for jobs:

    jobs         declares a job; `job_policy` has its limits, and `outline` the schema of its configuration
    run          the argument of a job's function
    job_calling  runs the function; `captured` stores its output
"""

from typing import TYPE_CHECKING, Any

from shardclock.app import describe, describe_jobs, find_declared, find_handlers, find_jobs, handlers_of, installed_apps
from shardclock.calling import call_async, call_batch_async, call_batch_plain, call_plain
from shardclock.handler import Handler, on_timer
from shardclock.job_calling import CallOutcome, Canceled, JobCall, ReportSnapshot, RunOrder
from shardclock.job_policy import JobPolicy
from shardclock.jobs import Job, job
from shardclock.outcome import COMPLETED, Completed, Discarded, Failed, Outcome, RetryLater
from shardclock.policy import Policy
from shardclock.raised import BpmnError, Discard, Partly, RetryIn
from shardclock.refusal import InvalidHandler
from shardclock.run import Run, RunCanceled
from shardclock.timer import Timer

if TYPE_CHECKING:
    from shardclock.http import ApiError as ApiError
    from shardclock.http import AsyncClient as AsyncClient
    from shardclock.http import Client as Client
    from shardclock.log import LogRecord as LogRecord
    from shardclock.log import consume as consume
    from shardclock.log import consume_leased as consume_leased
    from shardclock.log import consume_once as consume_once
    from shardclock.log import read_log as read_log

# These names are imported at their first use, because handlers must import `shardclock` cheaply.
OF_HTTP = ("ApiError", "AsyncClient", "Client")
OF_LOG = ("LogRecord", "consume", "consume_leased", "consume_once", "read_log")

__all__ = [
    "COMPLETED",
    "BpmnError",
    "CallOutcome",
    "Canceled",
    "Completed",
    "Discard",
    "Discarded",
    "Failed",
    "Handler",
    "InvalidHandler",
    "Job",
    "JobCall",
    "JobPolicy",
    "Outcome",
    "Partly",
    "Policy",
    "ReportSnapshot",
    "RetryIn",
    "RetryLater",
    "Run",
    "RunCanceled",
    "RunOrder",
    "Timer",
    "call_async",
    "call_batch_async",
    "call_batch_plain",
    "call_plain",
    "describe",
    "describe_jobs",
    "find_declared",
    "find_handlers",
    "find_jobs",
    "handlers_of",
    "installed_apps",
    "job",
    "on_timer",
]


def __getattr__(name: str) -> Any:
    """Import the client of the HTTP API, or the consumers of the log, at their first use.

    errors:  ImportError  httpx2 is not installed; the message explains how to install it
    """
    if name in OF_LOG:
        from shardclock import log

        return getattr(log, name)
    if name not in OF_HTTP:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from shardclock import http

    return getattr(http, name)
