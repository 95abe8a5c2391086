"""Pages of people's tasks: find tasks; show, claim, give back and complete one task."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from shardclock_server.gateway.console.access import Changer, Viewer
from shardclock_server.gateway.console.addresses import url_of
from shardclock_server.gateway.console.caching import page_router
from shardclock_server.gateway.console.forms import done, filter_of, form_of
from shardclock_server.gateway.console.pages.excerpts import Excerpt, head_of
from shardclock_server.gateway.console.pages.listing import ROWS, list_values
from shardclock_server.gateway.console.pages.task_results import variables_in
from shardclock_server.gateway.console.shell import page
from shardclock_server.gateway.gateway import CurrentGateway, Gateway
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.paths import Key
from shardclock_server.gateway.requests.shared_fields import BUSINESS_KEY_CHARS_MAX
from shardclock_server.gateway.routes.tasks import SEARCH_S, ClaimTaskRequest, assign_task, end_task
from shardclock_server.service import tasks as use_cases
from shardclock_server.sql.processes.tasks import TaskFilter, TasksPage, WholeTask, search_tasks
from shardclock_server.sql.session import Session
from shardclock_server.timers.model import BIGINT_MAX

ACTS_SHOWN = 20
OPEN = (use_cases.GIVEN_BACK, use_cases.ASSIGNED)  # the states in which a person can change a task

router = page_router()


class TasksForm(BaseModel):
    """A filter of open tasks, and the cursor of the page."""

    model_config = ConfigDict(extra="forbid")

    for_user: str | None = None
    group: str | None = None
    unassigned: bool = False
    process_id: str | None = None
    instance_key: int | None = Field(None, ge=1, le=BIGINT_MAX)
    business_key: str | None = Field(None, max_length=BUSINESS_KEY_CHARS_MAX)
    after: int = Field(0, ge=0, le=BIGINT_MAX)

    def filter_of(self, caller: Caller) -> TaskFilter:
        """Return the filter of the caller's tasks."""
        return TaskFilter(
            tenant_id=caller.tenant_id,
            for_user=self.for_user,
            unassigned=self.unassigned,
            candidate_groups=[self.group] if self.group else [],
            process_id=self.process_id,
            instance_key=self.instance_key,
            business_key=self.business_key,
        )


class CompleteForm(BaseModel):
    """The result of a task as text, and the person who completed the task."""

    model_config = ConfigDict(extra="forbid")

    variables: str | None = None
    assignee: str | None = None


@router.get("/tasks")
async def list_tasks(request: Request, gateway: CurrentGateway, caller: Viewer) -> Response:
    """List open tasks, the oldest first."""
    asked = filter_of(request, TasksForm)
    found = TasksPage([], None)
    if asked.error is None:
        async with gateway.pool.session(caller.tenants) as session:
            found = await search_tasks(
                session, asked.model.filter_of(caller), after=asked.model.after, page_size=ROWS, within_s=SEARCH_S
            )
    return page(
        request,
        caller,
        "tasks.html",
        personal=True,
        title="Tasks",
        tasks=found.tasks,
        **list_values(request, "/tasks", asked, found.next),
    )


@router.get("/tasks/{task_key:key}")
async def show_task(request: Request, task_key: Key, gateway: CurrentGateway, caller: Viewer) -> Response:
    """Show a task with its variables and its last events."""
    async with gateway.pool.session(caller.tenants) as session:
        task = await use_cases.find(session, task_key, tenant_id=caller.tenant_id)
    return page(
        request,
        caller,
        "task.html",
        personal=True,
        title=task.name or f"Task {task_key}",
        task=task,
        is_open=task.state in OPEN,
        caller_name=caller.name or "",
        variables=_variables_of(task),
        acts=[(it, _detail_of(it.detail)) for it in reversed(task.acts[-ACTS_SHOWN:])],
    )


@router.post("/tasks/{task_key:key}/claim")
async def claim(request: Request, task_key: Key, gateway: CurrentGateway, caller: Changer) -> Response:
    """Assign a task to a person."""
    asked = await form_of(request, ClaimTaskRequest)
    async with _changing(gateway, caller) as session:
        await assign_task(session, caller=caller, task_key=task_key, assignee=asked.assignee)
    return _done(request, task_key, f"the task is assigned to {asked.assignee}")


@router.post("/tasks/{task_key:key}/unclaim")
async def unclaim(request: Request, task_key: Key, gateway: CurrentGateway, caller: Changer) -> Response:
    """Remove the assignee of a task."""
    async with _changing(gateway, caller) as session:
        await assign_task(session, caller=caller, task_key=task_key, assignee=None)
    return _done(request, task_key, "the task has no assignee")


@router.post("/tasks/{task_key:key}/complete")
async def complete(request: Request, task_key: Key, gateway: CurrentGateway, caller: Changer) -> Response:
    """Complete a task; its instance continues."""
    asked = await form_of(request, CompleteForm)
    variables = variables_in(asked.variables)
    async with _changing(gateway, caller) as session:
        await end_task(session, caller=caller, task_key=task_key, variables=variables, assignee=asked.assignee)
    return _done(request, task_key, "the task is completed")


@asynccontextmanager
async def _changing(gateway: Gateway, caller: Caller) -> AsyncIterator[Session]:
    """Open a session for a change of a task, and notify engines after the change; the history records the API key."""
    async with gateway.pool.session(caller.tenants, key_prefix=caller.author) as session:
        yield session
    gateway.signal_notifications.want(1)


def _variables_of(task: WholeTask) -> Excerpt | None:
    variables = use_cases.variables_of(task)
    return None if variables is None else head_of(json.dumps(variables, indent=2, ensure_ascii=False))


def _detail_of(detail: dict[str, Any]) -> str:
    """Format the fields of an event of a task; the items of a list are joined."""
    texts = {name: ", ".join(map(str, it)) if isinstance(it, list) else it for name, it in detail.items()}
    return "; ".join(f"{name} {text}" for name, text in texts.items() if text not in (None, ""))[:1_000]


def _done(request: Request, task_key: int, message: str) -> Response:
    return done(request, url_of(request, "/tasks/{}", task_key), message)
