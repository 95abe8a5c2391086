"""The answers about processes, their instances and tasks."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import Field

from shardclock.api.answers import Answer

Waits = tuple[Mapping[str, Any], ...]


class Deployed(Answer):
    """One process of a model."""

    definition_key: int
    process_id: str
    version: int = Field(description="the version of the process")
    is_new: bool = Field(description="false: no new version, because the newest version has the same file")
    undeclared: tuple[str, ...] = Field(
        (),
        description="the types of service tasks without a handler or an endpoint: a program must lease these tasks",
    )


class ProcessState(Answer):
    """One version of a process."""

    definition_key: int
    process_id: str
    version: int = Field(description="the version of the process")
    name: str
    resource: str = Field(description="the name of the file")
    deployed_at: datetime
    running: int = Field(description="unfinished instances; 1000 means 1,000 or more")


class InstanceState(Answer):
    """One instance."""

    instance_key: int
    tenant_id: str
    process_id: str
    version: int = Field(description="the version of the process")
    state: str = Field(
        description="STARTING: no engine has started the instance yet; RUNNING; COMPLETED; CANCELED;"
        " ERROR: the instance threw an error to its caller"
    )
    started_at: datetime
    ended_at: datetime | None
    parent_key: int | None = Field(description="the instance that started this instance by a call activity")
    incidents: int = Field(description="the number of incidents; a STARTING instance has one if its start was given up")
    business_key: str | None = Field(None, description="the business key of the instance")


class InstanceInList(InstanceState):
    """One instance in a list."""

    since: datetime | None = Field(
        None, description="with `definition_key` in the request: the start of the instance's longest wait"
    )


class WholeInstance(InstanceState):
    """One instance with its variables and its waits."""

    definition_key: int
    error_code: str | None
    result: Mapping[str, Any] | None = Field(description="the variables at the instance's end")
    variables: Mapping[str, Any] | None = Field(description="the variables of the process, while it runs")
    local_variables: Waits = Field(
        (),
        description="the variables of single tokens, such as input mappings; `set_variables` changes them",
    )
    timers: Waits = Field(description="the open timers; in each wait, `since` is the time at which the wait began")
    service_tasks: Waits = Field(
        description="the open service tasks; `worker` is the name of the program that has leased the task,"
        " and `claimed_until` is the end of the lease"
    )
    tasks: Waits
    subscriptions: Waits = Field(description="the messages and signals for which the instance waits")
    called: Waits = Field(
        (), description="the running instances of called processes, each with the token that waits for it"
    )
    incident_list: Waits = Field(description="the tokens that have stopped, with the reasons")


class Step(Answer):
    """One step of an instance."""

    version: int = Field(description="the number of the step")
    stepped_at: datetime
    signals: Waits = Field(
        description="the signals of the step: sender, variable names, key_prefix of the API key, reason of an incident"
    )
    passes: tuple[tuple[int, str, str], ...] = Field(
        description="for each pass: the token, the node, and entered, left or terminated"
    )


class Incident(Answer):
    """A token that can't continue, and the reason."""

    instance_key: int
    tenant_id: str
    process_id: str
    version: int = Field(description="the version of the process")
    token: int
    node_id: str = Field(description="the id of the element in the model")
    signal_key: int = Field(description="0: the token has stopped; otherwise the dead letter to redrive")
    sentence: str
    raised_at: datetime


class StoppedToken(Answer):
    """One token of an instance."""

    instance_key: int
    token: int


class Resolved(Answer):
    """The result of resolving incidents, or of its dry run."""

    tokens: tuple[StoppedToken, ...] = Field(
        description="the tokens that continue; the token that stopped first comes first"
    )
    message: str
    more: bool = Field(description="whether more rows match than this request has changed")


class CanceledInstances(Answer):
    """The result of a cancellation of instances, or of its dry run."""

    instance_keys: tuple[int, ...] = Field(description="the cancelled (dry run: matching) instances, newest first")
    message: str
    more: bool = Field(description="whether more rows match than this request has changed")


class Task(Answer):
    """One open user task."""

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
    business_key: str | None = Field(description="the business key of the instance")


class TaskAct(Answer):
    """One event of a task."""

    act: str = Field(description="CREATED, ASSIGNED, COMPLETED or CANCELED")
    acted_at: datetime
    actor: str = Field(description="the role that acted, or engine")
    detail: Mapping[str, Any] = Field(
        description="the assignee, the properties at the creation, and the key_prefix of the API key"
    )


class WholeTask(Answer):
    """One task with its events. After the task's end, fields that no event contains are None."""

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
    business_key: str | None = Field(description="the business key of the instance")
    variables: Mapping[str, Any] | None = Field(
        description="the variables that the task sees, from the nearest scope first; null: the task has ended"
    )
    acts: tuple[TaskAct, ...] = Field(description="the last 1,000 events, in order")


class ServiceTask(Answer):
    """One service task, leased to the caller; a report about the task must have the task's key and claim number."""

    task_key: int
    claim: int = Field(description="the claim number of the lease; an answer must contain this number")
    instance_key: int
    token: int
    node_id: str
    failed_attempts: int
    variables: Mapping[str, Any] = Field(
        description="the variables that the task sees, and its headers; a variable hides a header of the same name"
    )
    type: str
    process_id: str | None
    version: int | None = Field(description="the version of the process")
    business_key: str | None = Field(description="the business key of the instance")
    headers: Mapping[str, str] = Field(description="the headers from the model, without variables")
    attempts_left: int = Field(
        description="the number of remaining attempts, with this attempt; `retries` of the model sets it, 3 by default"
    )
    claimed_until: datetime = Field(description="the end of the lease")


class TaskState(Answer):
    """The state of a task after a change."""

    task_key: int
    state: str = Field(
        description="ASSIGNED or COMPLETED; for a service task EXTENDED, COMPLETED, RETRIED (it failed, and there is"
        " another attempt), DEAD (its instance has an incident) or DISCARDED (it ended with a BPMN error)"
    )


class Deployment(Answer):
    """The processes of a model."""

    processes: tuple[Deployed, ...]


class ProcessesPage(Answer):
    """All processes."""

    processes: tuple[ProcessState, ...]


class InstancesPage(Answer):
    """A page of instances."""

    instances: tuple[InstanceInList, ...]
    next: int | None = Field(description="the `after` of the next request; null: this is the last page")


class StepsPage(Answer):
    """A page of an instance's steps."""

    steps: tuple[Step, ...]
    next: int | None = Field(description="the `after` of the next request; null: this is the last page")


class IncidentsPage(Answer):
    """A page of incidents."""

    incidents: tuple[Incident, ...]


class TasksPage(Answer):
    """A page of tasks."""

    tasks: tuple[Task, ...]
    next: int | None = Field(
        description="the `after` of the next request, also in an empty page; null: this is the last page"
    )


class ServiceTasksPage(Answer):
    """The leased service tasks."""

    tasks: tuple[ServiceTask, ...]


class InstanceKey(Answer):
    """The instance that received a signal."""

    instance_key: int


class Deleted(Answer):
    """The deleted definition."""

    definition_key: int


class InstanceKeys(Answer):
    """The instances that received a signal."""

    instance_keys: tuple[int, ...]
