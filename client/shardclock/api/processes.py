"""Hold what is answered about processes, their instances and tasks."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import Field

from shardclock.api.answers import Answer

Waits = tuple[Mapping[str, Any], ...]


class Deployed(Answer):
    """Hold one process of a model."""

    definition_key: int
    process_id: str
    version: int = Field(description="of the process")
    is_new: bool = Field(description="false: the newest version is of the same file already")
    undeclared: tuple[str, ...] = Field(
        (),
        description="the types of its service tasks that are no app's handler and no endpoint: for a program to take",
    )


class ProcessState(Answer):
    """Hold one version of a process."""

    definition_key: int
    process_id: str
    version: int = Field(description="of the process")
    name: str
    resource: str = Field(description="the file's name")
    deployed_at: datetime
    running: int = Field(description="its instances that have not ended; 1000 means 1,000 or more")


class InstanceState(Answer):
    """Hold one instance."""

    instance_key: int
    tenant_id: str
    process_id: str
    version: int = Field(description="of the process")
    state: str = Field(
        description="STARTING: no engine has begun it; RUNNING; COMPLETED, CANCELED, or ERROR: thrown to its caller"
    )
    started_at: datetime
    ended_at: datetime | None
    parent_key: int | None = Field(description="the instance whose call activity started it")
    incidents: int = Field(description="tokens that have stopped; of one that is STARTING: its start")
    business_key: str | None = Field(None, description="as its start gave it")


class WholeInstance(InstanceState):
    """Hold one instance with what it waits for."""

    definition_key: int
    error_code: str | None
    result: Mapping[str, Any] | None = Field(description="its variables at its end")
    variables: Mapping[str, Any] | None = Field(description="those of the process, while it runs")
    local_variables: Waits = Field(
        (),
        description="those that belong to one token, such as what its input mappings make; `set_variables` with the"
        " token changes them",
    )
    timers: Waits
    service_tasks: Waits = Field(
        description="that wait for a handler or a program, or are in its hands; `worker` is what a program calls"
        " itself that has one, and `claimed_until` how long it is in hand"
    )
    tasks: Waits
    subscriptions: Waits = Field(description="messages and signals that it waits for")
    called: Waits = Field((), description="instances of called processes that run, and the token that waits for each")
    incident_list: Waits = Field(description="tokens that have stopped, and why")


class Step(Answer):
    """Hold what happened when an instance was advanced once."""

    version: int = Field(description="how often it has been advanced")
    stepped_at: datetime
    signals: Waits = Field(
        description="what came, who did it, the key_prefix of the API key if it came over HTTP, and the names of the"
        " variables; an incident comes with its sentence"
    )
    passes: tuple[tuple[int, str, str], ...] = Field(description="token, node, and entered, left or terminated")


class Incident(Answer):
    """Hold a token that can't go on, and why."""

    instance_key: int
    tenant_id: str
    process_id: str
    version: int = Field(description="of the process")
    token: int
    node_id: str = Field(description="the id of the element in the model")
    signal_key: int = Field(description="0: the token has stopped; else the dead letter that is to be redriven")
    sentence: str
    raised_at: datetime


class StoppedToken(Answer):
    """Hold one token of an instance."""

    instance_key: int
    token: int


class Resolved(Answer):
    """Hold which tokens go on, or would."""

    tokens: tuple[StoppedToken, ...] = Field(description="that go on, the one that stopped first coming first")
    said: str
    more: bool = Field(description="whether others are left")


class CanceledInstances(Answer):
    """Hold which instances are told to end, or would be."""

    instance_keys: tuple[int, ...] = Field(description="that are told to end, the newest first")
    said: str
    more: bool = Field(description="whether others are left")


class Task(Answer):
    """Hold one open task of a person."""

    task_key: int
    tenant_id: str
    instance_key: int
    process_id: str
    node_id: str = Field(description="the id of the element in the model")
    name: str
    assignee: str | None
    candidate_groups: tuple[str, ...]
    candidate_users: tuple[str, ...]
    created_at: datetime
    due_date: datetime | None
    form_key: str | None
    business_key: str | None = Field(description="of its instance, as its start gave it")


class TaskAct(Answer):
    """Hold one act on a task."""

    act: str = Field(description="CREATED, ASSIGNED, COMPLETED or CANCELED")
    acted_at: datetime
    who: str = Field(description="the role that acted, or engine")
    detail: Mapping[str, Any] = Field(
        description="whose the task was, what it was created as, and the key_prefix of the API key that acted"
    )


class WholeTask(Answer):
    """Hold one task with what became of it; after its end each field is None that no act tells."""

    task_key: int
    tenant_id: str
    instance_key: int
    process_id: str
    node_id: str | None = Field(description="the id of the element in the model")
    name: str | None
    state: str = Field(description="CREATED, ASSIGNED, COMPLETED or CANCELED")
    assignee: str | None
    candidate_groups: tuple[str, ...] | None
    candidate_users: tuple[str, ...] | None
    created_at: datetime
    due_date: datetime | None
    form_key: str | None
    business_key: str | None = Field(description="of its instance, as its start gave it")
    variables: Mapping[str, Any] | None = Field(
        description="all that the task sees; of one name the nearest; null: it has ended"
    )
    acts: tuple[TaskAct, ...] = Field(description="in order, the last 1,000")


class ServiceTask(Answer):
    """Hold one service task that the caller has until its lease runs out; an answer names its key and its claim."""

    task_key: int
    claim: int = Field(description="which an answer must name")
    instance_key: int
    token: int
    node_id: str
    failed_attempts: int
    variables: Mapping[str, Any] = Field(
        description="those that the task sees, and its headers among them; of one name the variable"
    )
    type: str
    process_id: str | None
    version: int | None = Field(description="of the process")
    business_key: str | None = Field(description="as the instance's start gave it")
    headers: Mapping[str, str] = Field(description="the model's, apart")
    attempts_left: int = Field(description="of the model's `retries`, or of three, with this one")
    claimed_until: datetime = Field(description="when the lease runs out")


class TaskState(Answer):
    """Hold what a task is now."""

    task_key: int
    state: str = Field(
        description="ASSIGNED or COMPLETED; of a service task EXTENDED, COMPLETED, RETRIED (it failed, and there is"
        " another attempt), DEAD (its instance has an incident) or DISCARDED (it ended with an error of BPMN)"
    )


class Deployment(Answer):
    """Hold the processes of a model."""

    processes: tuple[Deployed, ...]


class ProcessesPage(Answer):
    """Hold all processes."""

    processes: tuple[ProcessState, ...]


class InstancesPage(Answer):
    """Hold some instances."""

    instances: tuple[InstanceState, ...]
    next: int | None = Field(description="the next request's `before`; null: there are no more")


class StepsPage(Answer):
    """Hold some steps of an instance."""

    steps: tuple[Step, ...]
    next: int | None = Field(description="the next request's `after`; null: there are no more")


class IncidentsPage(Answer):
    """Hold some incidents."""

    incidents: tuple[Incident, ...]


class TasksPage(Answer):
    """Hold some tasks."""

    tasks: tuple[Task, ...]
    next: int | None = Field(description="the next request's `after`, also of an empty page; null: there are no more")


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
