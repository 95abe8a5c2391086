"""Ask the HTTP API from Python: `AsyncClient`, and `Client` for programs without an event loop.

    async with shardclock.AsyncClient() as client:
        await client.schedule(delay="PT15M", name="order-42", payload={"order": 42})

It needs the extra `http` of the distribution: `pip install 'shardclock-client[http]'`.

    async_client   what is done to one timer, and all that follows; `sync_client` is written from it
    async_many     many timers; `sync_many` is written from it
    async_log      the log; `sync_log` is written from it
    async_operating   dead letters and jobs; `sync_operating` is written from it
    async_processes, async_tasks   those about processes; `sync_processes` and `sync_tasks` are written from them
    async_sending  connections, attempts and pauses; `sync_sending` is written from it
    asked          what is asked: path, query, body
    problems       read that from an answer, or from none
    retrying       whether a request is sent again, and when
    reading        read an answer
    parts          many timers, a few thousand with each request
    place          where the gateway is, and the key

What timers are asked and answered with, and the classes of errors, stand in `shardclock.api`: the client over SQL has
the same ones.
"""

try:
    import httpx2 as _httpx2  # noqa: F401 - only to say what is missing
except ModuleNotFoundError as missing:
    if missing.name != "httpx2":
        raise
    raise ImportError(
        "shardclock's client of the HTTP API needs httpx2, which is not installed;"
        " install it: pip install 'shardclock-client[http]'"
    ) from None

from shardclock.api.answers import (
    Acted,
    BulkChanged,
    Changed,
    DeadLetter,
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
from shardclock.api.processes import (
    CanceledInstances,
    Deployed,
    Incident,
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
from shardclock.http.asked import Chosen, Letters
from shardclock.http.async_client import AsyncClient
from shardclock.http.async_many import AsyncBulk
from shardclock.http.async_processes import AsyncProcesses
from shardclock.http.async_tasks import AsyncTasks
from shardclock.http.sync_client import Client
from shardclock.http.sync_many import Bulk
from shardclock.http.sync_processes import Processes
from shardclock.http.sync_tasks import Tasks

__all__ = [
    "Acted",
    "ApiError",
    "AsyncBulk",
    "AsyncClient",
    "AsyncProcesses",
    "AsyncTasks",
    "Broken",
    "Bulk",
    "BulkChanged",
    "CanceledInstances",
    "Changed",
    "Chosen",
    "Client",
    "Conflict",
    "DeadLetter",
    "Deployed",
    "Destination",
    "Explained",
    "InFlight",
    "Incident",
    "InstanceState",
    "JobRun",
    "JobState",
    "Letters",
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
    "TimerState",
    "TooLarge",
    "TooLate",
    "TooMany",
    "Unavailable",
    "WholeInstance",
    "WholeTask",
]
