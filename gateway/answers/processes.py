"""What is answered about processes, their instances, and tasks."""

from dataclasses import asdict
from datetime import datetime
from typing import Any, Self

from pydantic import Field

from shardclock_server.gateway.answers.answer import MOMENT, TENANT, Answer
from shardclock_server.service.many import Changed
from shardclock_server.service.processes import DeployedProcess, local_variables_of, variables_of
from shardclock_server.service.tasks import variables_of as seen_by
from shardclock_server.sql.processes.definitions import FoundDefinition
from shardclock_server.sql.processes.instances import FoundInstance, FoundStep, WholeInstance
from shardclock_server.sql.processes.service_tasks import TakenTask
from shardclock_server.sql.processes.tasks import FoundTask, WholeTask

DEFINITION_KEY = Field(examples=[30001])
INSTANCE_KEY = Field(examples=[31007])
PROCESS = Field(examples=["order"])
VERSION = Field(examples=[3], description="of the process")
NODE = Field(examples=["approve"], description="the id of the element in the model")


class DeployedAnswer(Answer):
    """One process of a model."""

    definition_key: int = DEFINITION_KEY
    process_id: str = PROCESS
    version: int = VERSION
    is_new: bool = Field(examples=[True], description="false: the newest version is of the same file already")
    undeclared: list[str] = Field(
        examples=[["order.pack"]],
        description="the types of its service tasks that are no app's handler and no endpoint: for a program to take",
    )

    @classmethod
    def of(cls, deployed: DeployedProcess) -> Self:
        """Make it of what was deployed."""
        return cls(**asdict(deployed))


class DeploymentAnswer(Answer):
    """The processes of a model."""

    processes: list[DeployedAnswer]


class ProcessAnswer(Answer):
    """One version of a process."""

    definition_key: int = DEFINITION_KEY
    process_id: str = PROCESS
    version: int = VERSION
    name: str = Field(examples=["Order"])
    resource: str = Field(examples=["order.bpmn"], description="the file's name")
    deployed_at: datetime = MOMENT
    running: int = Field(examples=[12], description="its instances that have not ended; 1000 means 1,000 or more")

    @classmethod
    def of(cls, found: FoundDefinition) -> Self:
        """Make it of what was found."""
        return cls(**{name: getattr(found, name) for name in cls.model_fields})


class DefinitionKeyAnswer(Answer):
    """Which definition was told."""

    definition_key: int = DEFINITION_KEY


class ProcessesAnswer(Answer):
    """Deployed processes."""

    processes: list[ProcessAnswer]


class InstanceAnswer(Answer):
    """One instance of a process."""

    instance_key: int = INSTANCE_KEY
    tenant_id: str = TENANT
    process_id: str = PROCESS
    version: int = VERSION
    state: str = Field(
        examples=["RUNNING"],
        description="STARTING: no engine has begun it; RUNNING; COMPLETED, CANCELED, or ERROR: thrown to its caller",
    )
    started_at: datetime = MOMENT
    ended_at: datetime | None = Field(examples=[None])
    parent_key: int | None = Field(examples=[None], description="the instance whose call activity started it")
    incidents: int = Field(examples=[0], description="tokens that have stopped; of one that is STARTING: its start")
    business_key: str | None = Field(examples=["order-42"], description="as its start gave it")

    @classmethod
    def of(cls, found: FoundInstance) -> Self:
        """Make it of what was found."""
        return cls(**asdict(found))


class InstancesAnswer(Answer):
    """Some instances, the newest first."""

    instances: list[InstanceAnswer]
    next: int | None = Field(examples=[30950], description="the next request's `before`; null: there are no more")


class WholeInstanceAnswer(InstanceAnswer):
    """One instance, with what it waits for."""

    definition_key: int = DEFINITION_KEY
    error_code: str | None = Field(examples=[None])
    result: dict[str, Any] | None = Field(examples=[None], description="its variables at its end")
    variables: dict[str, Any] | None = Field(
        examples=[{"order": 42}], description="those of the process, while it runs"
    )
    local_variables: list[dict[str, Any]] = Field(
        examples=[[{"token": 4, "node_id": "pack", "variables": {"item": "box"}}]],
        description="those that belong to one token, such as what its input mappings make; `set_variables` with the"
        " token changes them",
    )
    timers: list[dict[str, Any]] = Field(
        examples=[
            [
                {
                    "timer_key": 31008,
                    "token": 3,
                    "node_id": "too-late",
                    "due_date": "2027-01-31T08:15:00Z",
                    "schedule": None,
                }
            ]
        ]
    )
    service_tasks: list[dict[str, Any]] = Field(
        examples=[[{"task_key": 31010, "token": 4, "node_id": "pack", "type": "order.pack", "failed_attempts": 0}]],
        description="that wait for a handler or a program, or are in its hands; `worker` is what a program calls itself"
        " that has one, and `claimed_until` how long it is in hand",
    )
    tasks: list[dict[str, Any]] = Field(
        examples=[
            [{"task_key": 31009, "token": 3, "node_id": "approve", "name": "Approve the order", "assignee": None}]
        ]
    )
    subscriptions: list[dict[str, Any]] = Field(examples=[[]], description="messages and signals that it waits for")
    called: list[dict[str, Any]] = Field(
        examples=[[{"token": 4, "process_id": "ship", "instance_key": 31012}]],
        description="instances of called processes that run, and the token that waits for each",
    )
    incident_list: list[dict[str, Any]] = Field(examples=[[]], description="tokens that have stopped, and why")

    @classmethod
    def of_whole(cls, whole: WholeInstance) -> Self:
        """Make it of what was found."""
        return cls(
            **asdict(whole.found),
            definition_key=whole.definition_key,
            error_code=whole.error_code,
            result=whole.result,
            variables=variables_of(whole),
            local_variables=local_variables_of(whole),
            **{name: list(rows) for name, rows in whole.waits.items()},
        )


class StepAnswer(Answer):
    """What happened when an instance was advanced once."""

    version: int = Field(examples=[1], description="how often it has been advanced")
    stepped_at: datetime = MOMENT
    signals: list[dict[str, Any]] = Field(
        examples=[
            [{"key": 31007, "kind": "completed", "token": 3, "node": "approve", "by": "ann", "variables": ["ok"]}]
        ],
        description="what came, who did it, the key_prefix of the API key if it came over HTTP, and the names of the"
        " variables; an incident comes with its sentence",
    )
    passes: list[list[Any]] = Field(
        examples=[[[1, "order", "entered"]]], description="token, node, and entered, left or terminated"
    )

    @classmethod
    def of(cls, step: FoundStep) -> Self:
        """Make it of what was found."""
        return cls(**asdict(step))


class StepsAnswer(Answer):
    """What happened in an instance, in order."""

    steps: list[StepAnswer]
    next: int | None = Field(examples=[None], description="the next request's `after`; null: there are no more")


class InstanceKeyAnswer(Answer):
    """Which instance was told."""

    instance_key: int = INSTANCE_KEY


class InstanceKeysAnswer(Answer):
    """Which instances were told."""

    instance_keys: list[int] = Field(examples=[[31007]])


class CanceledAnswer(Answer):
    """What became of the instances of a business key, or would."""

    instance_keys: list[int] = Field(examples=[[31007]], description="that are told to end, the newest first")
    said: str = Field(examples=["1 instance is told to end"])
    more: bool = Field(examples=[False], description="whether others are left")

    @classmethod
    def of(cls, canceled: Changed[int]) -> Self:
        """Make it of what was done."""
        return cls(instance_keys=list(canceled.keys), said=canceled.sentence, more=canceled.more)


class TaskAnswer(Answer):
    """One task that a person is to do."""

    task_key: int = Field(examples=[31009])
    tenant_id: str = TENANT
    instance_key: int = INSTANCE_KEY
    process_id: str = PROCESS
    node_id: str = NODE
    name: str = Field(examples=["Approve the order"])
    assignee: str | None = Field(examples=["ann"])
    candidate_groups: list[str] = Field(examples=[["sales"]])
    candidate_users: list[str] = Field(examples=[[]])
    created_at: datetime = MOMENT
    due_date: datetime | None = Field(examples=[None])
    form_key: str | None = Field(examples=[None])
    business_key: str | None = Field(examples=["order-42"], description="of its instance, as its start gave it")

    @classmethod
    def of(cls, task: FoundTask) -> Self:
        """Make it of what was found."""
        return cls(**asdict(task))


class TasksAnswer(Answer):
    """Some open tasks, the oldest first."""

    tasks: list[TaskAnswer]
    next: int | None = Field(
        examples=[None], description="the next request's `after`, also of an empty page; null: there are no more"
    )


class TaskActAnswer(Answer):
    """One act on a task."""

    act: str = Field(examples=["COMPLETED"], description="CREATED, ASSIGNED, COMPLETED or CANCELED")
    acted_at: datetime = MOMENT
    who: str = Field(examples=["engine"], description="the role that acted, or engine")
    detail: dict[str, Any] = Field(
        examples=[{"assignee": "ann"}],
        description="whose the task was, what it was created as, and the key_prefix of the API key that acted",
    )


class WholeTaskAnswer(Answer):
    """One task with its variables, and what became of it; of one that has ended all is null that no act tells."""

    task_key: int = Field(examples=[31009])
    tenant_id: str = TENANT
    instance_key: int = INSTANCE_KEY
    process_id: str = PROCESS
    node_id: str | None = NODE
    name: str | None = Field(examples=["Approve the order"])
    state: str = Field(examples=["ASSIGNED"], description="CREATED, ASSIGNED, COMPLETED or CANCELED")
    assignee: str | None = Field(examples=["ann"])
    candidate_groups: list[str] | None = Field(examples=[["sales"]])
    candidate_users: list[str] | None = Field(examples=[[]])
    created_at: datetime = MOMENT
    due_date: datetime | None = Field(examples=[None])
    form_key: str | None = Field(examples=[None])
    business_key: str | None = Field(examples=["order-42"], description="of its instance, as its start gave it")
    variables: dict[str, Any] | None = Field(
        examples=[{"order": 42}],
        description="all that the task sees; of one name the nearest; null: it has ended",
    )
    acts: list[TaskActAnswer] = Field(description="in order, the last 1,000")

    @classmethod
    def of(cls, task: WholeTask) -> Self:
        """Make it of what was found."""
        fields = asdict(task)
        return cls(variables=seen_by(task), **{name: fields[name] for name in cls.model_fields if name in fields})


class ServiceTaskAnswer(Answer):
    """One service task that the caller has taken."""

    task_key: int = Field(examples=[31010])
    claim: int = Field(examples=[1], description="which an answer must name")
    instance_key: int = INSTANCE_KEY
    token: int = Field(examples=[4])
    node_id: str = Field(examples=["pack"])
    failed_attempts: int = Field(examples=[0])
    variables: dict[str, Any] = Field(
        examples=[{"order": 42, "box": "large"}],
        description="those that the task sees, and its headers among them; of one name the variable",
    )
    type: str = Field(examples=["order.pack"])
    process_id: str | None = PROCESS
    version: int | None = VERSION
    business_key: str | None = Field(examples=["order-42"], description="as the instance's start gave it")
    headers: dict[str, str] = Field(examples=[{"box": "large"}], description="the model's, apart")
    attempts_left: int = Field(examples=[3], description="of the model's `retries`, or of three, with this one")
    claimed_until: datetime = Field(examples=["2027-01-31T08:15:00Z"], description="when the lease runs out")

    @classmethod
    def of(cls, task: TakenTask) -> Self:
        """Make it of what was taken."""
        return cls(**asdict(task))


class ServiceTasksAnswer(Answer):
    """Service tasks that the caller has taken."""

    tasks: list[ServiceTaskAnswer]


class TaskStateAnswer(Answer):
    """What a task is now."""

    task_key: int = Field(examples=[31009])
    state: str = Field(
        examples=["COMPLETED"],
        description="ASSIGNED or COMPLETED; of a service task EXTENDED, COMPLETED, RETRIED (it failed, and there is"
        " another attempt), DEAD (its instance has an incident) or DISCARDED (it ended with an error of BPMN)",
    )
