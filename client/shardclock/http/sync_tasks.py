# `make docs` writes this file from async_tasks.py: change that file, and run `make docs`.
"""Work on the tasks of instances through a gateway: user tasks, and service tasks of external workers."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shardclock.api.fields import Length
from shardclock.api.processes import ServiceTask, ServiceTasksPage, Task, TasksPage, TaskState, WholeTask
from shardclock.http import requests as ask
from shardclock.http.sync_sending import Sender

TASKS, SERVICE_TASKS = "/v1/tasks", "/v1/service-tasks"


class Tasks:
    """The client's methods for tasks, as `client.tasks`.

    Each changing call uses the given idempotency key or a random key, so that the client can retry the request without
    a second change.

    errors:  ApiError  from each method, as `AsyncClient` describes
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
        """Find open user tasks, the oldest first; `unassigned` selects tasks without an assignee.

        `for_user` selects the tasks of a person, and the unassigned tasks that the person may claim: as a candidate
        user, or as a member of a group in `group`.

        shape:   all matching tasks, read page by page; `user` is a candidate user; `group` lists candidate groups, and
                 a task matches by one of these groups
        errors:  Refused  `assignee` is given together with `unassigned` or `for_user`
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
        """Find one user task, open or ended, with its variables and its events.

        errors:  NotFound  the task never existed, or its instance was deleted
        """
        return self._sender.ask(WholeTask, ask.read(f"{TASKS}/{ask.number('task_key', task_key)}"))

    def claim(self, task_key: int, assignee: str, *, idempotency_key: str | None = None) -> TaskState:
        """Assign a task to a person.

        errors:  Conflict  the task is assigned to another person (the error's `members["assignee"]`), or is completed
                           or cancelled.
                 NotFound  the task never existed, or its instance was deleted.
        """
        return self._do(TASKS, task_key, "claim", {"assignee": assignee}, idempotency_key)

    def give_back(self, task_key: int, *, idempotency_key: str | None = None) -> TaskState:
        """Remove the assignee of a task.

        errors:  Conflict  the task is completed or cancelled.
                 NotFound  the task never existed, or its instance was deleted.
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
        """Complete a user task; its instance continues.

        The task's record names `assignee` as the person that completed the task. The default of `assignee` is the
        present assignee.

        errors:  Conflict  the task was completed already, or is cancelled; or the task is assigned to another person
                           (the error's `members["assignee"]`).
                 NotFound  the task never existed, or its instance was deleted.
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
        """Lease at most 1,000 service tasks of a type; no other program gets the leased tasks until the lease ends.

        With `wait`, at most five minutes, the call returns when there is a task, or when the time is over. `worker` is
        the name of the calling program; operators see this name with the task.
        """
        fields = {"type": task_type, "most": most, "lease": lease, "worker": worker}
        request = ask.once("POST", f"{SERVICE_TASKS}/activate", fields, idempotency_key).with_wait(wait)
        return (self._sender.ask(ServiceTasksPage, request)).tasks

    def extend(self, taken: ServiceTask, lease: Length = "PT1M", *, idempotency_key: str | None = None) -> TaskState:
        """Extend the lease of a service task, even an expired lease if no other program has leased the task.

        errors:  as in `complete_service_task`
        """
        return self._do(
            SERVICE_TASKS, taken.task_key, "extend", {"claim": taken.claim, "lease": lease}, idempotency_key
        )

    def complete_service_task(
        self, taken: ServiceTask, variables: Mapping[str, Any] | None = None, *, idempotency_key: str | None = None
    ) -> TaskState:
        """Complete a leased service task; its instance continues.

        errors:  Conflict  another program has leased the task in the meantime, the task was answered already, or its
                           instance does not wait for the task any more: the error's `state` is TAKEN, COMPLETED_BEFORE,
                           DISCARDED_BEFORE, DEAD_BEFORE, RETRIED_BEFORE or CANCELED.
                 NotFound  the caller never had the task, or the task's end was deleted from the log.
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
        """Report that a service task failed. If no attempt is left, the instance gets an incident.

        shape:   `retries` is the number of further attempts; None: the number in the model (3 by default) minus the
                 earlier attempts
        errors:  as in `complete_service_task`
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
        """End a service task with a BPMN error, which an event of the model may catch by its code.

        errors:  as in `complete_service_task`
        """
        fields = {"claim": taken.claim, "code": code, "reason": reason, "variables": variables}
        return self._do(SERVICE_TASKS, taken.task_key, "throw", fields, idempotency_key)

    def _do(
        self, path: str, task_key: int, verb: str, fields: Mapping[str, object], idempotency_key: str | None
    ) -> TaskState:
        request = ask.once("POST", f"{path}/{ask.number('task_key', task_key)}/{verb}", fields, idempotency_key)
        return self._sender.ask(TaskState, request)
