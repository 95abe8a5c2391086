"""All that a run has recorded: what clients asked and were told, what was committed in which order, what was broken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias

SIGNAL = "process:instance"  # the target of a signal to an instance of a process
ALONE_S = 13.0  # a takeover by leases and sweeps

Outcome = Literal["ok", "fail", "unknown"]
FaultKind = Literal["kill", "freeze", "cut", "store", "head", "load", "lock", "clock", "poison"]


@dataclass(frozen=True, slots=True)
class Asked:
    """One timer that a client wants: a plain one, or a schedule.

    `due_date` is set where the client named the moment; `delay_s` where it gave a delay, which counts from the moment
    that Postgres wrote the row. A schedule is a `rule` (ISO 8601 repeat or cron). `poison` says that it can't be fired.
    `target` is what its firing is to call.
    """

    timer_key: int
    name: str | None = None
    due_date: datetime | None = None
    delay_s: float | None = None
    rule: str | None = None
    payload: str | None = None
    poison: bool = False
    target: str = "log"


@dataclass(frozen=True, slots=True)
class Call:
    """One thing that a client asked, and what it was told.

    `verb` is schedule, cancel or reschedule. A schedule brings `timers`, under keys drawn before; the other verbs name
    one timer, by `timer_key` or by `name` within the tenant, and a reschedule moves it to `delay_s` from now. Or it is
    of a `process`: start (under an idempotency key, the `name`), complete (a task of an instance, by `task_key`),
    publish (a message, whose correlation key is the `name`), or stop (cancel an instance). `instance_key` is the
    instance that it is about, or that a start was told. `resends` is the number of the call that this one repeats with
    the same keys. Moments are seconds since 1970 by the rig's clock; `ended_at` is None if no end was seen at all.
    `ok`: the answer came. `fail`: it was refused, nothing happened. `unknown`: the connection was lost, or time was up.
    `answer` is the state that a verb returned (CANCELED, TRIGGERED, RESCHEDULED, SKIPPED, UNKNOWN ...); for a schedule
    `refused` tells which keys were refused.
    """

    number: int
    verb: Literal["schedule", "cancel", "reschedule", "start", "complete", "publish", "stop"]
    tenant_id: str
    began_at: float
    ended_at: float | None
    outcome: Outcome
    timers: Sequence[Asked] = ()
    timer_key: int | None = None
    name: str | None = None
    delay_s: float | None = None
    answer: str | None = None
    refused: Sequence[int] = ()
    resends: int | None = None
    error: str | None = None
    process: str | None = None
    instance_key: int | None = None
    task_key: int | None = None


class TimerWritten(NamedTuple):
    """A row of `timers` as an insert (`new`) or an update left it.

    One with an `instance_key` is what a node of that instance waits for.
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
    """A row of `timers` that was deleted."""

    timer_key: int


class Recorded(NamedTuple):
    """A row appended to the command log."""

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
    """A row of `holders` as an insert or update left it."""

    holder: int
    part: int | None
    part_count: int | None
    pid: int
    seen_at: datetime | None  # its last sign of life, once it has ended
    ended_at: datetime | None
    suspended_at: datetime | None
    role: str = "shard"


class DeliveryWritten(NamedTuple):
    """A row of `deliveries` as an insert (`new`) or an update left it.

    With the target SIGNAL it is a signal to an instance of a process; `instance_key` is null if the instance is to
    begin, under the signal's own key. A `job` is a service task of an instance. Of these two alone `payload` is kept.
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
    """A row of `deliveries` that was deleted."""

    timer_key: int


class InstanceWritten(NamedTuple):
    """A row of `instances` as an insert (`new`) or an update left it; `result`: its variables at its end, as JSON."""

    new: bool
    instance_key: int
    tenant_id: str
    process_id: str
    version: int
    outcome: str | None
    result: str | None


class InstanceStepped(NamedTuple):
    """A row of `instance_steps`: which signals an instance took, and how its tokens went, each as JSON."""

    instance_key: int
    version: int
    holder: int
    signals: str
    passes: str


class TaskWritten(NamedTuple):
    """A row of `tasks` as an insert (`new`) or an update left it."""

    new: bool
    task_key: int
    instance_key: int
    node_id: str
    completed: bool


class TaskDeleted(NamedTuple):
    """A row of `tasks` that was deleted."""

    task_key: int


class IncidentRaised(NamedTuple):
    """A row of `incidents` as an insert or an update left it."""

    instance_key: int
    node_id: str
    sentence: str


Change: TypeAlias = (
    TimerWritten | TimerDeleted | Recorded | HolderWritten | DeliveryWritten | DeliveryDeleted | InstanceWritten
    | InstanceStepped | TaskWritten | TaskDeleted | IncidentRaised
)  # fmt: skip


class Commit(NamedTuple):
    """One transaction that committed, with its changes in the order in which it made them."""

    lsn: int
    xid: int
    committed_at: datetime
    changes: tuple[Change, ...]


class Attempt(NamedTuple):
    """One call of a handler, as the handler wrote it down before it did anything: `body` is a hash of its payload."""

    timer_key: int
    target: str
    tenant_id: str
    occurrence: int
    attempt: int
    body: str
    began_at: float
    pid: int


class Read(NamedTuple):
    """One record as a reader of the log got it, in the order in which it got them."""

    reader: str
    position: int


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that was broken, from when to when by the rig's clock, and whose timers it hit.

    `victims` are holders that could not work meanwhile: killed, frozen or cut off. `recovers_within_s` is what the
    product promises for it: how late timers may be, counted from `began_at` for a shard that is killed, frozen or cut,
    and from `ended_at` for all others; None where nothing is promised but safety. A fault that is not to disturb
    anybody (`disturbs` is false: the coordinator or a worker dies, a reader stays open) excuses no timer's lag. A
    worker that is broken is no victim: timers fire without it; `detail` names it (`worker`). While a fault lasts, and
    for a moment more, nobody leads if it is `leaderless`.
    """

    number: int
    kind: FaultKind
    name: str
    began_at: float
    ended_at: float
    victims: Sequence[int] = ()
    recovers_within_s: float | None = None
    disturbs: bool = True
    leaderless: bool = False
    detail: Mapping[str, object] = field(default_factory=dict)


class Pending(NamedTuple):
    """A timer that was still in the table at the end."""

    timer_key: int
    due_date: datetime
    paused: bool


@dataclass(frozen=True, slots=True)
class Bounds:
    """What lag is normal when nothing is broken, and how long the whole must take to be there again after a fault.

    `alone_s` is how late timers of a lost shard may be where nobody leads who could give their slots to another. A run
    with fewer kills, freezes, cuts, firings, attempts or instances than the `_min` ones has proved too little.
    """

    normal_s: float = 1.0
    alone_s: float = ALONE_S
    back_within_s: float = 30.0
    claim_max: int = 4_200 + 840
    answer_s: float = 15.0
    kills_min: int = 0
    freezes_min: int = 0
    cuts_min: int = 0
    fires_min: int = 0
    attempts_min: int = 0
    instances_min: int = 0


@dataclass(slots=True)
class History:
    """A whole run. `commits` is complete and in commit order; `began_at` and `ended_at` are by the rig's clock.

    `undelivered` and `dead_letters` are the timers whose deliveries were still in these tables at the end, `running`
    the instances that had not ended, and `open_tasks` the tasks that were still there.
    """

    seed: int
    began_at: float
    ended_at: float
    bounds: Bounds = field(default_factory=Bounds)
    calls: list[Call] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    pending: list[Pending] = field(default_factory=list)
    poisoned: frozenset[int] = frozenset()
    attempts: list[Attempt] = field(default_factory=list)
    undelivered: list[int] = field(default_factory=list)
    dead_letters: list[int] = field(default_factory=list)
    running: list[int] = field(default_factory=list)
    open_tasks: list[int] = field(default_factory=list)


def patient(history: History, times: float) -> History:
    """Allow timers to be later by a factor, for a machine that has other work to do; safety is not a matter of time."""
    faults = [
        replace(fault, recovers_within_s=None if fault.recovers_within_s is None else fault.recovers_within_s * times)
        for fault in history.faults
    ]
    bounds = history.bounds
    slower = replace(bounds, normal_s=bounds.normal_s * times, alone_s=bounds.alone_s * times)
    return replace(history, faults=faults, bounds=slower)
