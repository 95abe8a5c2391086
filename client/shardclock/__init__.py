"""Write the functions that Shardclock's timers call, and test them without a cluster.

    @shardclock.on_timer("order.expired", max_attempts=5)
    async def expire(timer: shardclock.Timer) -> None: ...

A handler returns: the timer is done. It raises: it is called again later, as its policy says; `Discard`: never again;
`RetryIn`: after this time; `Partly`: for some timers of a batch. The same timer may come more than once, so a handler
must bear that.

    @shardclock.job(every="PT15M", max_runtime="PT5M")
    async def refresh(run: shardclock.Run) -> dict: ...

A job is run again and again, one run at a time, each in a process of its own.

    async with shardclock.AsyncClient() as client:
        await client.schedule(delay="PT15M", target="order.expired", payload={"order": 42})

A client of the HTTP API, with the extra `http`; `Client` is the same without an event loop. All that belongs to it is
in `shardclock.http`.

    shardclock.sql.timers(connection).schedule(delay="PT15M", target="order.expired", payload={"order": 42})

The same in the transaction that is open on a connection of yours, with `import shardclock.sql`. What both clients have
in common is in `shardclock.api`.

    await shardclock.consume(lambda: asyncpg.connect(DSN), "billing", bill)

Work for each record of the log, exactly once, with connections of yours: `shardclock.log`.

`timer` is what a handler gets, `handler` declares it (with `policy`, `durations` and `signature`), `app` finds the
handlers of a module, `calling` calls them (with `payload` and `deadline`), `outcome` says how an attempt ended (with
`raised`, `result`, `recorded` and `reason`), `testing` calls them in a user's tests (with `stepping`, which finds a
cluster whose clock a test moves). `jobs` declares a job (with `job_policy`, and `outline`, which says what its
configurations look like), `run` is what its function gets, `job_calling` runs it (with `captured`, which keeps what it
prints). What can't be a handler or a job is refused when it is declared, with `InvalidHandler` (`refusal`): one
sentence with the value, the rule and the way out.
"""

from typing import TYPE_CHECKING, Any

from shardclock.app import describe, describe_jobs, find_declared, find_handlers, find_jobs, handlers_of, installed_apps
from shardclock.calling import call_async, call_batch_async, call_batch_plain, call_plain
from shardclock.handler import Handler, on_timer
from shardclock.job_calling import CallOutcome, Canceled, JobCall, RunOrder, Seen
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

# What a handler does not need is imported when it is asked for: handlers must import `shardclock` cheaply.
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
    "RetryIn",
    "RetryLater",
    "Run",
    "RunCanceled",
    "RunOrder",
    "Seen",
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

    errors:  ImportError  httpx2 is not installed; it says how to install it
    """
    if name in OF_LOG:
        from shardclock import log

        return getattr(log, name)
    if name not in OF_HTTP:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from shardclock import http

    return getattr(http, name)
