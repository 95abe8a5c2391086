"""The response models of processes, instances and tasks."""

from dataclasses import asdict
from typing import Annotated, Self

from pydantic import Field, WithJsonSchema

from shardclock.api import processes
from shardclock_server.gateway.answers.answer import MOMENT_TEXT, RowAnswer, examples
from shardclock_server.service.bulk_wording import BulkResult
from shardclock_server.service.processes import local_variables_of, variables_of
from shardclock_server.service.tasks import variables_of as seen_by
from shardclock_server.sql.processes.instances import WholeInstance
from shardclock_server.sql.processes.tasks import WholeTask
from shardclock_server.sql.processes.waits import ListedInstance


class DeployedAnswer(RowAnswer, processes.Deployed, json_schema_extra=examples(is_new=True, undeclared=["order.pack"])):
    """One process of a model."""


class DeploymentAnswer(processes.Deployment):
    """The processes of a model."""

    processes: tuple[DeployedAnswer, ...]


class ProcessAnswer(
    RowAnswer,
    processes.ProcessState,
    json_schema_extra=examples(name="Order", resource="order.bpmn", deployed_at=MOMENT_TEXT, running=12),
):
    """One version of a process."""


class DefinitionKeyAnswer(processes.Deleted, json_schema_extra=examples()):
    """The definition that was changed."""


class ProcessesAnswer(processes.ProcessesPage):
    """A page of deployed processes."""

    processes: tuple[ProcessAnswer, ...]


OF_INSTANCE = {"state": "RUNNING", "ended_at": None, "parent_key": None, "incidents": 0}


class InstanceAnswer(processes.InstanceInList, json_schema_extra=examples(**OF_INSTANCE, since=None)):
    """One instance of a process."""

    @classmethod
    def of(cls, listed: ListedInstance) -> Self:
        """Create the response model from a stored instance."""
        return cls(**asdict(listed.found), since=listed.since)


class InstancesAnswer(processes.InstancesPage, json_schema_extra=examples(next=30950)):
    """A page of instances."""

    instances: tuple[InstanceAnswer, ...]


class WholeInstanceAnswer(
    processes.WholeInstance,
    json_schema_extra=examples(
        **OF_INSTANCE,
        error_code=None,
        result=None,
        variables={"order": 42},
        local_variables=[{"token": 4, "node_id": "pack", "variables": {"item": "box"}}],
        timers=[
            {
                "timer_key": 31008,
                "token": 3,
                "node_id": "too-late",
                "due_date": "2027-01-31T08:15:00Z",
                "schedule": None,
                "since": "2027-01-31T07:15:00Z",
            }
        ],
        service_tasks=[{"task_key": 31010, "token": 4, "node_id": "pack", "type": "order.pack", "failed_attempts": 0}],
        tasks=[{"task_key": 31009, "token": 3, "node_id": "approve", "name": "Approve the order", "assignee": None}],
        subscriptions=[],
        called=[{"token": 4, "process_id": "ship", "instance_key": 31012}],
        incident_list=[],
    ),
):
    """One instance, with its variables and all its waits."""

    @classmethod
    def of(cls, whole: WholeInstance) -> Self:
        """Create the response model from a stored instance."""
        return cls(
            **asdict(whole.found),
            definition_key=whole.definition_key,
            error_code=whole.error_code,
            result=whole.result,
            variables=variables_of(whole),
            local_variables=local_variables_of(whole),
            **{name: list(rows) for name, rows in whole.waits.items()},
        )


class StepAnswer(
    RowAnswer,
    processes.Step,
    json_schema_extra=examples(
        version=1,
        stepped_at=MOMENT_TEXT,
        signals=[{"key": 31007, "kind": "completed", "token": 3, "node": "approve", "by": "ann", "variables": ["ok"]}],
        passes=[[1, "order", "entered"]],
    ),
):
    """One step of an instance: its signals, and the nodes that tokens entered or left."""

    # The reference's page can't show tuples.
    passes: tuple[Annotated[tuple[int, str, str], WithJsonSchema({"type": "array", "items": {}})], ...] = Field(
        description="for each move of a token: the token, the node, and what happened: entered, left or terminated"
    )


class StepsAnswer(processes.StepsPage, json_schema_extra=examples(next=None)):
    """The steps of an instance, the oldest first."""

    steps: tuple[StepAnswer, ...]


class InstanceKeyAnswer(processes.InstanceKey, json_schema_extra=examples()):
    """The instance that received a signal."""


class InstanceKeysAnswer(processes.InstanceKeys, json_schema_extra=examples(instance_keys=[31007])):
    """The instances that received a signal."""


class CanceledAnswer(
    processes.CanceledInstances,
    json_schema_extra=examples(instance_keys=[31007], message="1 instance is told to end"),
):
    """The result of cancelling all instances with one business key, or of a dry run."""

    @classmethod
    def of(cls, canceled: BulkResult[int]) -> Self:
        """Create the response model from the result of a change."""
        return cls(instance_keys=list(canceled.keys), message=canceled.sentence, more=canceled.more)


OF_TASK = {
    "task_key": 31009,
    "name": "Approve the order",
    "assignee": "ann",
    "candidate_groups": ["sales"],
    "candidate_users": [],
    "due_date": None,
    "form_key": None,
}


class TaskAnswer(RowAnswer, processes.Task, json_schema_extra=examples(**OF_TASK)):
    """One open user task."""


class TasksAnswer(processes.TasksPage, json_schema_extra=examples(next=None)):
    """A page of open tasks, oldest first."""

    tasks: tuple[TaskAnswer, ...]


class TaskActAnswer(
    processes.TaskAct,
    json_schema_extra=examples(act="COMPLETED", acted_at=MOMENT_TEXT, actor="engine", detail={"assignee": "ann"}),
):
    """One event of a task."""


class WholeTaskAnswer(
    processes.WholeTask, json_schema_extra=examples(**OF_TASK, state="ASSIGNED", variables={"order": 42})
):
    """One task with its variables and its events.

    A field of an ended task is null if no event recorded the field's value.
    """

    acts: tuple[TaskActAnswer, ...] = Field(description="the last 1,000 events, the oldest first")

    @classmethod
    def of(cls, task: WholeTask) -> Self:
        """Create the response model from a stored task."""
        fields = asdict(task)
        return cls(variables=seen_by(task), **{name: fields[name] for name in cls.model_fields if name in fields})


class ServiceTaskAnswer(
    RowAnswer,
    processes.ServiceTask,
    json_schema_extra=examples(
        task_key=31010,
        claim=1,
        token=4,
        node_id="pack",
        failed_attempts=0,
        variables={"order": 42, "box": "large"},
        type="order.pack",
        headers={"box": "large"},
        attempts_left=3,
        claimed_until="2027-01-31T08:15:00Z",
    ),
):
    """One service task that the caller has leased."""


class ServiceTasksAnswer(processes.ServiceTasksPage):
    """The service tasks that the caller has leased."""

    tasks: tuple[ServiceTaskAnswer, ...]


class TaskStateAnswer(processes.TaskState, json_schema_extra=examples(task_key=31009, state="COMPLETED")):
    """The present state of a task."""
