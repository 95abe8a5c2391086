"""Hold what is answered about processes, their instances and tasks."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from shardclock.api.answers import Answer

Waits = tuple[Mapping[str, Any], ...]


class Deployed(Answer):
    """Hold one process of a model; if it is not new, its newest version was of the same file already.

    shape:   `undeclared` are the types of its service tasks that are no handler of an app and no endpoint
    """

    definition_key: int
    process_id: str
    version: int
    is_new: bool
    undeclared: tuple[str, ...] = ()


class ProcessState(Answer):
    """Hold one version of a process; `running` counts its instances; 1,000 may be more."""

    definition_key: int
    process_id: str
    version: int
    name: str
    resource: str
    deployed_at: datetime
    running: int


class InstanceState(Answer):
    """Hold one instance; `state` is STARTING, RUNNING, COMPLETED, CANCELED or ERROR."""

    instance_key: int
    tenant_id: str
    process_id: str
    version: int
    state: str
    started_at: datetime
    ended_at: datetime | None
    parent_key: int | None
    incidents: int
    business_key: str | None = None


class WholeInstance(InstanceState):
    """Hold one instance with what it waits for.

    shape:   `variables` are the process's while it runs, `result` the same at its end; `local_variables` are of single
             tokens
    """

    definition_key: int
    error_code: str | None
    result: Mapping[str, Any] | None
    variables: Mapping[str, Any] | None
    local_variables: Waits = ()
    timers: Waits
    service_tasks: Waits
    tasks: Waits
    subscriptions: Waits
    called: Waits = ()
    incident_list: Waits


class Step(Answer):
    """Hold what happened when an instance was advanced once.

    shape:   `passes` are a token, a node, and entered, left or terminated
    """

    version: int
    stepped_at: datetime
    signals: Waits
    passes: tuple[tuple[int, str, str], ...]


class Incident(Answer):
    """Hold a token that can't go on, and why; `signal_key` is a dead letter's, 0 if the token itself has stopped."""

    instance_key: int
    tenant_id: str
    process_id: str
    version: int
    token: int
    node_id: str
    signal_key: int
    sentence: str
    raised_at: datetime


class StoppedToken(Answer):
    """Hold one token of an instance."""

    instance_key: int
    token: int


class Resolved(Answer):
    """Hold which tokens go on, or would; `more`: others are left."""

    tokens: tuple[StoppedToken, ...]
    said: str
    more: bool


class CanceledInstances(Answer):
    """Hold which instances are told to end, or would be; `more`: others are left."""

    instance_keys: tuple[int, ...]
    said: str
    more: bool


class Task(Answer):
    """Hold one open task of a person."""

    task_key: int
    tenant_id: str
    instance_key: int
    process_id: str
    node_id: str
    name: str
    assignee: str | None
    candidate_groups: tuple[str, ...]
    candidate_users: tuple[str, ...]
    created_at: datetime
    due_date: datetime | None
    form_key: str | None
    business_key: str | None


class TaskAct(Answer):
    """Hold one act on a task: CREATED, ASSIGNED, COMPLETED or CANCELED; `who` is the role that acted, or engine."""

    act: str
    acted_at: datetime
    who: str
    detail: Mapping[str, Any]


class WholeTask(Answer):
    """Hold one task with what became of it; `state` is CREATED, ASSIGNED, COMPLETED or CANCELED.

    shape:   `variables` are all that it sees; of one that has ended all is None that no act tells
    """

    task_key: int
    tenant_id: str
    instance_key: int
    process_id: str
    node_id: str | None
    name: str | None
    state: str
    assignee: str | None
    candidate_groups: tuple[str, ...] | None
    candidate_users: tuple[str, ...] | None
    created_at: datetime
    due_date: datetime | None
    form_key: str | None
    business_key: str | None
    variables: Mapping[str, Any] | None
    acts: tuple[TaskAct, ...]


class ServiceTask(Answer):
    """Hold one service task that the caller has until its lease runs out; an answer names its key and its claim.

    shape:   `variables` have the headers among them, of one name the variable; `attempts_left` are with this one
    """

    task_key: int
    claim: int
    instance_key: int
    token: int
    node_id: str
    failed_attempts: int
    variables: Mapping[str, Any]
    type: str | None
    process_id: str | None
    version: int | None
    business_key: str | None
    headers: Mapping[str, str]
    attempts_left: int | None
    claimed_until: datetime | None


class TaskState(Answer):
    """Hold what a task is now: CREATED, ASSIGNED, COMPLETED, EXTENDED, RETRIED, DEAD or DISCARDED."""

    task_key: int
    state: str


class Deployment(Answer):
    """Hold the processes of a model."""

    processes: tuple[Deployed, ...]


class ProcessesPage(Answer):
    """Hold all processes."""

    processes: tuple[ProcessState, ...]


class InstancesPage(Answer):
    """Hold some instances; `next` is None if there are no more."""

    instances: tuple[InstanceState, ...]
    next: int | None


class StepsPage(Answer):
    """Hold some steps of an instance; `next` is None if there are no more."""

    steps: tuple[Step, ...]
    next: int | None


class IncidentsPage(Answer):
    """Hold some incidents."""

    incidents: tuple[Incident, ...]


class TasksPage(Answer):
    """Hold some tasks; `next` is None if there are no more."""

    tasks: tuple[Task, ...]
    next: int | None


class ServiceTasksPage(Answer):
    """Hold what was taken."""

    tasks: tuple[ServiceTask, ...]


class Told(Answer):
    """Hold which instance was told."""

    instance_key: int


class Deleted(Answer):
    """Hold which definition was deleted."""

    definition_key: int


class Reached(Answer):
    """Hold which instances were told."""

    instance_keys: tuple[int, ...]
