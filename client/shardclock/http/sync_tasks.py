# Written by `make docs` from async_tasks.py: change that, and write this anew.
"""Do what instances wait for through a gateway: tasks of persons, and service tasks that a program takes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shardclock.api.fields import Length
from shardclock.api.processes import ServiceTask, ServiceTasksPage, Task, TasksPage, TaskState, WholeTask
from shardclock.http import asked as ask
from shardclock.http.sync_sending import Sender

TASKS, SERVICE_TASKS = "/v1/tasks", "/v1/service-tasks"


class Tasks:
    """Ask about tasks; `client.tasks` is one.

    Each call that changes something draws an idempotency key, unless it is given one: so it is sent again until it is
    answered, and done once.

    errors:  ApiError  of each method, as of the client
    """

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def list(
        self,
        *,
        assignee: str | None = None,
        for_user: str | None = None,
        unassigned: bool = False,
        group: str | Sequence[str] | None = None,
        user: str | None = None,
        process_id: str | None = None,
        instance_key: int | None = None,
        business_key: str | None = None,
    ) -> Iterator[Task]:
        """Find open tasks of persons, the oldest first; `unassigned` are those that nobody has.

        `for_user` are those that a person has, and those that nobody has and that the person may take, as a candidate
        user or in one of the groups, which are the person's then.

        shape:   all of them, read page by page; `user` is a candidate, and so is each `group`: one of several is enough
        errors:  Refused  an assignee is given, and `unassigned` or `for_user`
        """
        after: int | None = None
        chosen = {
            "assignee": assignee,
            "for_user": for_user,
            "unassigned": unassigned or None,
            "group": group,
            "user": user,
            "process_id": process_id,
            "instance_key": instance_key,
            "business_key": business_key,
        }
        while True:
            page = self._sender.ask(TasksPage, ask.read(TASKS, **chosen, limit=ask.PAGE, after=after))
            for task in page.tasks:
                yield task
            if page.next is None:
                return
            after = page.next

    def show(self, task_key: int) -> WholeTask:
        """Find one task of a person, open or ended, with the variables that it sees, and what became of it.

        errors:  NotFound  it never was, or its instance is forgotten
        """
        return self._sender.ask(WholeTask, ask.read(f"{TASKS}/{ask.number('task_key', task_key)}"))

    def claim(self, task_key: int, assignee: str, *, idempotency_key: str | None = None) -> TaskState:
        """Give a task to a person.

        errors:  Conflict  another person has it, its `members["assignee"]`; or it is completed or cancelled
                 NotFound  it never was, or its instance is forgotten
        """
        return self._do(TASKS, task_key, "claim", {"assignee": assignee}, idempotency_key)

    def give_back(self, task_key: int, *, idempotency_key: str | None = None) -> TaskState:
        """Take a task from the person who has it.

        errors:  Conflict  it is completed or cancelled
                 NotFound  it never was, or its instance is forgotten
        """
        return self._do(TASKS, task_key, "unclaim", {}, idempotency_key)

    def complete(
        self,
        task_key: int,
        variables: Mapping[str, Any] | None = None,
        *,
        assignee: str | None = None,
        idempotency_key: str | None = None,
    ) -> TaskState:
        """Complete a task of a person; its instance goes on.

        `assignee` is the person who completes the task, as recorded; by default its present assignee.

        errors:  Conflict  it was completed already, or is cancelled; or it is not the assignee's but another person's,
                           its `members["assignee"]`
                 NotFound  it never was, or its instance is forgotten
        """
        fields = {"variables": variables, "assignee": assignee}
        return self._do(TASKS, task_key, "complete", fields, idempotency_key)

    def activate(
        self,
        task_type: str,
        *,
        most: int = 10,
        lease: Length = "PT1M",
        wait: Length | None = None,
        worker: str | None = None,
        idempotency_key: str | None = None,
    ) -> tuple[ServiceTask, ...]:
        """Take service tasks of a type, at most 1,000: they are the caller's until the lease has run out.

        With `wait`, return when there is one, or when the time is over: at most five minutes. `worker` is what the
        program calls itself, for operators who ask who has a task.
        """
        fields = {"type": task_type, "most": most, "lease": lease, "worker": worker}
        asked = ask.once("POST", f"{SERVICE_TASKS}/activate", fields, idempotency_key).waiting(wait)
        return (self._sender.ask(ServiceTasksPage, asked)).tasks

    def extend(self, taken: ServiceTask, lease: Length = "PT1M", *, idempotency_key: str | None = None) -> TaskState:
        """Keep a service task that was taken for so long from now; also after its lease, if nobody else has taken it.

        errors:  as `complete_service_task`
        """
        return self._do(
            SERVICE_TASKS, taken.task_key, "extend", {"claim": taken.claim, "lease": lease}, idempotency_key
        )

    def complete_service_task(
        self, taken: ServiceTask, variables: Mapping[str, Any] | None = None, *, idempotency_key: str | None = None
    ) -> TaskState:
        """Complete a service task that was taken; its instance goes on.

        errors:  Conflict  another has taken it since, it was answered already, or its instance waits for it no more:
                           `state` is TAKEN, COMPLETED_BEFORE, DISCARDED_BEFORE, DEAD_BEFORE, RETRIED_BEFORE or CANCELED
                 NotFound  it never was the caller's, or the log has forgotten its end
        """
        fields = {"claim": taken.claim, "variables": variables}
        return self._do(SERVICE_TASKS, taken.task_key, "complete", fields, idempotency_key)

    def fail_service_task(
        self,
        taken: ServiceTask,
        reason: str,
        *,
        retries: int | None = None,
        retry_after: Length = "PT0S",
        idempotency_key: str | None = None,
    ) -> TaskState:
        """Say that a service task could not be done; if it has no attempt left, its instance has an incident.

        shape:   `retries` are further attempts; None: as many as are left of the model's, or of three if it has none
        errors:  as `complete_service_task`
        """
        fields = {"claim": taken.claim, "reason": reason, "retries": retries, "retry_after": retry_after}
        return self._do(SERVICE_TASKS, taken.task_key, "fail", fields, idempotency_key)

    def throw_error(
        self,
        taken: ServiceTask,
        code: str,
        *,
        reason: str | None = None,
        variables: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> TaskState:
        """End a service task with an error of BPMN, which an event of the model may catch by its code.

        errors:  as `complete_service_task`
        """
        fields = {"claim": taken.claim, "code": code, "reason": reason, "variables": variables}
        return self._do(SERVICE_TASKS, taken.task_key, "throw", fields, idempotency_key)

    def _do(
        self, path: str, task_key: int, verb: str, fields: Mapping[str, object], idempotency_key: str | None
    ) -> TaskState:
        asked = ask.once("POST", f"{path}/{ask.number('task_key', task_key)}/{verb}", fields, idempotency_key)
        return self._sender.ask(TaskState, asked)
