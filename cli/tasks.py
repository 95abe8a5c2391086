"""The commands about user tasks: list the open ones, show one, claim one, complete one."""

from typing import Annotated

import typer

from shardclock_server.cli.lists import lists, tell_if_full, tell_none
from shardclock_server.cli.options import LISTED_MAX, OfTenant
from shardclock_server.cli.output import DONE, NOT_DONE, Json, print_json, tell
from shardclock_server.cli.process_options import Variables, read_variables
from shardclock_server.cli.process_words import print_task, print_tasks
from shardclock_server.cli.session import with_session, with_signals
from shardclock_server.service import tasks as service
from shardclock_server.service.tasks import ASSIGNED, COMPLETED, COMPLETED_BEFORE, GIVEN_BACK, LEFT, TAKEN
from shardclock_server.sql.processes.tasks import EVERY_TASK, TaskFilter, claim_task, complete_task, find_tasks
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import shortened

TaskKey = Annotated[int, typer.Argument(metavar="TASK_KEY", min=1, help="The task.", show_default=False)]

tasks = typer.Typer(
    help="List the open user tasks; the subcommands show, claim and complete one.", invoke_without_command=True
)


@lists(tasks)
def list_(
    assignee: Annotated[str | None, typer.Option("--assignee", help="Only of this person.")] = None,
    unassigned: Annotated[bool, typer.Option("--unassigned", help="Only those that nobody has.")] = False,
    for_user: Annotated[
        str | None,
        typer.Option("--for-user", help="Only what this person, or one of the person's groups, has or may take."),
    ] = None,
    groups: Annotated[
        list[str] | None, typer.Option("--group", help="Only with this candidate group; of several, with any of them.")
    ] = None,
    user: Annotated[str | None, typer.Option("--user", help="Only with this candidate user.")] = None,
    process_id: Annotated[str | None, typer.Option("--process", help="Only of this process.")] = None,
    instance_key: Annotated[int | None, typer.Option("--instance", help="Only of this instance.")] = None,
    business_key: Annotated[
        str | None, typer.Option("--business-key", help="Only of the instances that were started with it.")
    ] = None,
    tenant: OfTenant = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=LISTED_MAX, help="How many to show.")] = 20,
    after: Annotated[int, typer.Option("--after", help="Continue after this task_key.")] = 0,
    as_json: Json = False,
) -> int:
    """List open tasks, the oldest first."""
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
        if as_json:
            print_json(found)
        elif found:
            print_tasks(found)
            tell_if_full(found, limit, way_on=f"--after {found[-1].task_key}")
        else:
            tell_none("tasks", "no task is open", filtered=wanted != EVERY_TASK or after > 0)
        return DONE

    return with_session(do)


@tasks.command()
def show(task_key: TaskKey, as_json: Json = False) -> int:
    """Show a task: the variables that it sees, and what became of it."""

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
    """Give a task to a person, unless another has it."""
    return _assign(task_key, assignee, as_json=as_json)


@tasks.command()
def unclaim(task_key: TaskKey, as_json: Json = False) -> int:
    """Take a task away from the person who has it."""
    return _assign(task_key, None, as_json=as_json)


@tasks.command()
def complete(
    task_key: TaskKey,
    variables: Variables = None,
    assignee: Annotated[
        str | None, typer.Option("--assignee", help="Who completes it; another's task is left as it is.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Complete a task; its instance goes on."""
    given = read_variables(variables)

    async def do(session: Session) -> int:
        outcome = await complete_task(session, task_key, variables=given, assignee=assignee)
        if outcome == COMPLETED:
            _tell_done(task_key, outcome, "is completed; its instance goes on", as_json=as_json)
        else:
            await _tell_left(session, task_key, outcome, is_so=outcome == COMPLETED_BEFORE, as_json=as_json)
        return DONE if outcome in (COMPLETED, COMPLETED_BEFORE) else NOT_DONE

    return with_signals(do)


def _assign(task_key: int, assignee: str | None, *, as_json: bool) -> int:
    async def do(session: Session) -> int:
        outcome = await claim_task(session, task_key, assignee=assignee)
        if outcome not in (ASSIGNED, GIVEN_BACK):
            await _tell_left(session, task_key, outcome, as_json=as_json)
            return NOT_DONE
        whose = "nobody" if assignee is None else shortened(assignee)
        _tell_done(task_key, outcome, f"is assigned to {whose} now", as_json=as_json)
        return DONE

    return with_session(do)


def _tell_done(task_key: int, outcome: str, said: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"task_key": task_key, "state": outcome})
    else:
        tell(f"task {task_key} {said}")


async def _tell_left(session: Session, task_key: int, outcome: str, *, is_so: bool = False, as_json: bool) -> None:
    """Say why a task stays as it is, and of another person's whose it is; it may be because it `is_so` already."""
    if outcome == TAKEN:
        assignee = await service.whose(session, task_key)
        fields = {"assignee": assignee}
        why_not = f"{service.taken_sentence(task_key, assignee)}: `shardclock tasks unclaim {task_key}` takes it away"
    else:
        fields, why_not = {}, LEFT[outcome].format(key=task_key)
    if as_json:
        print_json({"task_key": task_key, "state": outcome, **fields})
    else:
        tell(why_not if is_so else f"shardclock: {why_not}")
