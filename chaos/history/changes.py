"""Record the changes of rows, and the transactions that committed them."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple, TypeAlias

SIGNAL = "process:instance"  # The target of a signal to a process instance.


class TimerWritten(NamedTuple):
    """A row of `timers` after an insert (`new`) or an update.

    A timer with an `instance_key` belongs to a node of that instance.
    """

    new: bool
    timer_key: int
    due_date: datetime
    tenant_id: str
    name: str | None
    schedule: str | None
    occurrence: int
    claimed_by: int | None
    claimed_until: datetime | None
    paused: bool
    instance_key: int | None = None
    node_id: str | None = None


class TimerDeleted(NamedTuple):
    """The deletion of a row of `timers`."""

    timer_key: int


class Recorded(NamedTuple):
    """A row that was appended to the command log."""

    position: int
    recorded_at: datetime
    timer_key: int
    tenant_id: str
    name: str | None
    due_date: datetime
    occurrence: int
    intent: str
    holder: int | None
    schedule: str | None
    payload: str | None
    detail: str | None
    target: str = "log"
    instance_key: int | None = None


class HolderWritten(NamedTuple):
    """A row of `holders` after an insert or update."""

    holder: int
    part: int | None
    part_count: int | None
    pid: int
    seen_at: datetime | None  # The last heartbeat before the holder ended.
    ended_at: datetime | None
    suspended_at: datetime | None
    role: str = "shard"


class LeaderWritten(NamedTuple):
    """The row of `leadership` after an update; `leader` is None while an operator hands the lead over."""

    leader: int | None


class DeliveryWritten(NamedTuple):
    """A row of `deliveries` after an insert (`new`) or an update.

    A row with the target SIGNAL is a signal to a process instance. If `instance_key` is null, the signal starts an
    instance, and the new instance has the key of the signal. `job` marks a service task. Only signals and service tasks
    have a `payload`.
    """

    new: bool
    timer_key: int
    target: str
    claimed_by: int | None
    claimed_until: datetime | None
    claims: int
    failed_attempts: int
    tenant_id: str = ""
    instance_key: int | None = None
    node_id: str | None = None
    job: bool = False
    payload: str | None = None


class DeliveryDeleted(NamedTuple):
    """The deletion of a row of `deliveries`."""

    timer_key: int


class InstanceWritten(NamedTuple):
    """A row of `instances` after an insert (`new`) or an update; `result` is JSON with the final variables."""

    new: bool
    instance_key: int
    tenant_id: str
    process_id: str
    version: int
    outcome: str | None
    result: str | None


class InstanceStepped(NamedTuple):
    """A row of `instance_steps`: JSON with the signals of the step, and JSON with the moves of tokens."""

    instance_key: int
    version: int
    holder: int
    signals: str
    passes: str


class TaskWritten(NamedTuple):
    """A row of `tasks` after an insert (`new`) or an update."""

    new: bool
    task_key: int
    instance_key: int
    node_id: str
    completed: bool


class TaskDeleted(NamedTuple):
    """The deletion of a row of `tasks`."""

    task_key: int


class IncidentRaised(NamedTuple):
    """A row of `incidents` after an insert or update."""

    instance_key: int
    node_id: str
    sentence: str


Change: TypeAlias = (
    TimerWritten | TimerDeleted | Recorded | HolderWritten | DeliveryWritten | DeliveryDeleted | InstanceWritten
    | InstanceStepped | TaskWritten | TaskDeleted | IncidentRaised | LeaderWritten
)  # fmt: skip


class Commit(NamedTuple):
    """One committed transaction, with its changes in the order of their execution."""

    lsn: int
    xid: int
    committed_at: datetime
    changes: tuple[Change, ...]
