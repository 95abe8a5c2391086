"""Use the HTTP API from Python: `AsyncClient`, and `Client` for programs without an event loop.

    async with shardclock.AsyncClient() as client:
        await client.schedule(delay="PT15M", name="order-42", payload={"order": 42})

This package needs the extra `http` of the distribution: `pip install 'shardclock-client[http]'`.

    async_client:                     methods for one timer, and for all parts below
    async_many:                       many timers
    async_log:                        the log
    async_operating:                  dead letters, jobs and bulk operations
    async_processes and async_tasks:  processes and tasks
    async_sending:                    connections, retries and pauses
    sync_…:                           written from `async_…` by `make docs`
    requests:                         a request: path, query, body
    problems:                         create the errors of failed requests, with or without a response
    retrying:                         decide whether and when a request is retried
    reading:                          parse a response
    parts:                            split many timers into requests of a few thousand
    address:                          the gateway's URL, and the key

`shardclock.api` has the fields, answers and errors, which the SQL client shares.
"""

try:
    import httpx2 as _httpx2  # noqa: F401 - only for a clear message if httpx2 is missing
except ModuleNotFoundError as missing:
    if missing.name != "httpx2":
        raise
    raise ImportError(
        "shardclock's client of the HTTP API needs httpx2, which is not installed;"
        " install it: pip install 'shardclock-client[http]'"
    ) from None

from shardclock.api.answers import (
    BulkChanged,
    Changed,
    DeadLetter,
    DeadLettersChanged,
    Explained,
    Line,
    Occurrence,
    Record,
    Scheduled,
    TimerState,
)
from shardclock.api.errors import (
    ApiError,
    Broken,
    Conflict,
    InFlight,
    MoreMatch,
    NameTaken,
    NoAnswer,
    NoKey,
    NotAllowed,
    NotFound,
    OtherRequest,
    OverQuota,
    Refused,
    Stale,
    TooLarge,
    TooLate,
    TooMany,
    Unavailable,
)
from shardclock.api.fields import Destination, New, NewLine, Put
from shardclock.api.jobs import JobRun, JobState
from shardclock.api.operations import Operation
from shardclock.api.processes import (
    CanceledInstances,
    Deployed,
    Incident,
    InstanceInList,
    InstanceState,
    ProcessState,
    Resolved,
    ServiceTask,
    Step,
    Task,
    TaskAct,
    TaskState,
    WholeInstance,
    WholeTask,
)
from shardclock.http.async_client import AsyncClient
from shardclock.http.async_many import AsyncBulk
from shardclock.http.async_processes import AsyncProcesses
from shardclock.http.async_tasks import AsyncTasks
from shardclock.http.requests import BulkQuery, DeadLetterQuery, TimerQuery
from shardclock.http.sync_client import Client
from shardclock.http.sync_many import Bulk
from shardclock.http.sync_processes import Processes
from shardclock.http.sync_tasks import Tasks

__all__ = [
    "ApiError",
    "AsyncBulk",
    "AsyncClient",
    "AsyncProcesses",
    "AsyncTasks",
    "Broken",
    "Bulk",
    "BulkChanged",
    "BulkQuery",
    "CanceledInstances",
    "Changed",
    "Client",
    "Conflict",
    "DeadLetter",
    "DeadLetterQuery",
    "DeadLettersChanged",
    "Deployed",
    "Destination",
    "Explained",
    "InFlight",
    "Incident",
    "InstanceInList",
    "InstanceState",
    "JobRun",
    "JobState",
    "Line",
    "MoreMatch",
    "NameTaken",
    "New",
    "NewLine",
    "NoAnswer",
    "NoKey",
    "NotAllowed",
    "NotFound",
    "Occurrence",
    "Operation",
    "OtherRequest",
    "OverQuota",
    "ProcessState",
    "Processes",
    "Put",
    "Record",
    "Refused",
    "Resolved",
    "Scheduled",
    "ServiceTask",
    "Stale",
    "Step",
    "Task",
    "TaskAct",
    "TaskState",
    "Tasks",
    "TimerQuery",
    "TimerState",
    "TooLarge",
    "TooLate",
    "TooMany",
    "Unavailable",
    "WholeInstance",
    "WholeTask",
]
