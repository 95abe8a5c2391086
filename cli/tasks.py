"""The commands about user tasks: list, show, claim, unclaim, complete."""

from typing import Annotated

import typer

from shardclock_server.cli.lists import lists, more_note, none_note, print_list
from shardclock_server.cli.options import LISTED_MAX, OfTenant, key_argument, limit_option
from shardclock_server.cli.output import DONE, Json, print_done
from shardclock_server.cli.process_options import Variables, read_variables
from shardclock_server.cli.process_output import OF_TASKS, print_task, row_of_task
from shardclock_server.cli.session import with_notification, with_session
from shardclock_server.service import tasks as service
from shardclock_server.service.tasks import ASSIGNED, COMPLETED, COMPLETED_BEFORE, GIVEN_BACK, TAKEN, UNCHANGED
from shardclock_server.sql.processes.tasks import EVERY_TASK, TaskFilter, claim_task, complete_task, find_tasks
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal, shortened

TaskKey = Annotated[int, key_argument("TASK_KEY", "The task.")]

tasks = typer.Typer(
    help="List the open user tasks; the subcommands show, claim and complete one task.", invoke_without_command=True
)


@lists(tasks)
def list_(
    assignee: Annotated[str | None, typer.Option("--assignee", help="Only tasks with this assignee.")] = None,
    unassigned: Annotated[bool, typer.Option("--unassigned", help="Only tasks without an assignee.")] = False,
    for_user: Annotated[
        str | None,
        typer.Option(
            "--for-user",
            help="Only tasks that are assigned to this person, or that the person may claim as a candidate user or"
            " through a group.",
        ),
    ] = None,
    groups: Annotated[
        list[str] | None,
        typer.Option("--group", help="Only tasks with this candidate group; repeat the option for several groups."),
    ] = None,
    user: Annotated[str | None, typer.Option("--user", help="Only tasks with this candidate user.")] = None,
    process_id: Annotated[str | None, typer.Option("--process", help="Only tasks of this process.")] = None,
    instance_key: Annotated[int | None, typer.Option("--instance", help="Only tasks of this instance.")] = None,
    business_key: Annotated[
        str | None, typer.Option("--business-key", help="Only tasks of instances with this business key.")
    ] = None,
    tenant: OfTenant = None,
    limit: Annotated[int, limit_option(LISTED_MAX)] = 20,
    after: Annotated[int, typer.Option("--after", help="Continue after this task_key.")] = 0,
    as_json: Json = False,
) -> int:
    """List open tasks, oldest first."""
    wanted = TaskFilter(
        tenant_id=tenant,
        assignee=assignee,
        for_user=for_user,
        unassigned=unassigned,
        candidate_groups=groups or (),
        candidate_user=user,
        process_id=process_id,
        instance_key=instance_key,
        business_key=business_key,
    )

    async def do(session: Session) -> int:
        found = await find_tasks(session, wanted, after=after, page_size=limit)
        none = none_note("tasks", "no task is open", filtered=wanted != EVERY_TASK or after > 0)
        more = "" if len(found) < limit else more_note(f"--after {found[-1].task_key}")
        return print_list(
            {"tasks": found}, OF_TASKS, [row_of_task(it) for it in found], none=none, more=more, as_json=as_json
        )

    return with_session(do)


@tasks.command()
def show(task_key: TaskKey, as_json: Json = False) -> int:
    """Show a task with its visible variables and its history."""

    async def do(session: Session) -> int:
        print_task(await service.find(session, task_key), as_json=as_json)
        return DONE

    return with_session(do)


@tasks.command()
def claim(
    task_key: TaskKey,
    assignee: Annotated[str, typer.Option("--assignee", help="The person.", show_default=False)],
    as_json: Json = False,
) -> int:
    """Assign a task to a person, unless the task is assigned to another person."""
    return _assign(task_key, assignee, as_json=as_json)


@tasks.command()
def unclaim(task_key: TaskKey, as_json: Json = False) -> int:
    """Remove a task's assignee."""
    return _assign(task_key, None, as_json=as_json)


@tasks.command()
def complete(
    task_key: TaskKey,
    variables: Variables = None,
    assignee: Annotated[
        str | None,
        typer.Option(
            "--assignee",
            help="The person that completes the task; a task that is assigned to another person is not changed.",
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Complete a task, so that its instance continues."""
    given = read_variables(variables)

    async def do(session: Session) -> int:
        outcome = await complete_task(session, task_key, variables=given, assignee=assignee)
        if outcome not in (COMPLETED, COMPLETED_BEFORE):
            raise await _refusal_of(session, task_key, outcome)
        message = "is completed; its instance continues" if outcome == COMPLETED else "was completed already"
        return _print_state(task_key, outcome, message, as_json=as_json)

    return with_notification(do)


def _assign(task_key: int, assignee: str | None, *, as_json: bool) -> int:
    async def do(session: Session) -> int:
        outcome = await claim_task(session, task_key, assignee=assignee)
        if outcome not in (ASSIGNED, GIVEN_BACK):
            raise await _refusal_of(session, task_key, outcome)
        change = "has no assignee now" if assignee is None else f"is assigned to {shortened(assignee)} now"
        return _print_state(task_key, outcome, change, as_json=as_json)

    return with_session(do)


def _print_state(task_key: int, outcome: str, message: str, *, as_json: bool) -> int:
    return print_done(f"task {task_key} {message}", {"task_key": task_key, "state": outcome}, as_json=as_json)


async def _refusal_of(session: Session, task_key: int, outcome: str) -> Refusal:
    """Return the refusal of a change; the message names the assignee if another person has the task."""
    if outcome == TAKEN:
        return service.taken(task_key, await service.read_assignee(session, task_key))
    return service.refusal_of(task_key, outcome, UNCHANGED)
