"""The commands about consumer groups of the log."""

from typing import Annotated

import typer

from shardclock.api.refusals.log import UNKNOWN_GROUP
from shardclock.log.async_groups import knows_group
from shardclock_server.cli.lists import full_note, lists, print_list
from shardclock_server.cli.options import limit_option
from shardclock_server.cli.output import Json, print_done
from shardclock_server.cli.session import with_session
from shardclock_server.service.consumers import END, START, position_of
from shardclock_server.service.wording import counted, span_of
from shardclock_server.sql.log.groups import Group, drop_group, list_aside, list_groups, reset_group
from shardclock_server.sql.session import Session
from shardclock_server.timers.model import SLOTS
from shardclock_server.timers.refusal import Refusal

ASIDE_MAX = 10_000  # The limit of records in one list.

Name = Annotated[str, typer.Argument(metavar="GROUP", show_default=False)]
Yes = Annotated[bool, typer.Option("--yes", help="Make the change; without --yes, only show the change.")]

consumers = typer.Typer(
    help="List the groups that read the log, with the lag of each; the subcommands change one group.",
    invoke_without_command=True,
)


@lists(consumers)
def list_(as_json: Json = False) -> int:
    """List the groups that read the log, with the lag of each."""

    async def do(session: Session) -> int:
        groups = await list_groups(session)
        columns = ["group", "partitions", "lag", "oldest unread", "idle since", "failures", "set aside", "last error"]
        none = "no consumer group exists yet"
        return print_list({"groups": groups}, columns, [_row(group) for group in groups], none=none, as_json=as_json)

    return with_session(do)


@consumers.command()
def aside(
    group: Name,
    limit: Annotated[int, limit_option(ASIDE_MAX, "The limit of records.")] = 100,
    as_json: Json = False,
) -> int:
    """Show the records that were set aside for a group after too many failed attempts, newest first."""

    async def do(session: Session) -> int:
        found = await list_aside(session, group, limit=limit)
        if not found and not await knows_group(session, group):
            raise Refusal.of(UNKNOWN_GROUP, group=group)
        columns = ["set aside", "position", "timer_key", "intent", "attempts", "error"]
        rows = [(it.set_aside_at, it.position, it.timer_key, it.intent, it.attempts, it.error) for it in found]
        none, more = f"{group} has no records set aside", full_note(found, limit, most=ASIDE_MAX)
        return print_list({"records": found}, columns, rows, none=none, more=more, as_json=as_json)

    return with_session(do)


@consumers.command()
def reset(
    group: Name,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="PLACE", help=f"{START}, {END}, a position, or a moment such as 2031-01-31T08:00Z."
        ),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions", min=1, max=SLOTS, help="The number of partitions in which the group reads the log."
        ),
    ] = None,
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    """Set a group's position or its number of partitions; records that were set aside are kept."""
    if to is None and partitions is None:
        raise Refusal("give --to, --partitions, or both")

    async def do(session: Session) -> int:
        known = await _find(session, group)
        place = None if to is None else await position_of(session, to, called="--to")
        where = "where it is" if place is None else f"behind position {place}"
        parts = counted(partitions or known.partitions, "partition")
        if not yes:
            message = f"{group} would continue {where}, in {parts}; nothing was changed; add --yes to do it"
            return print_done(message, as_json=as_json, done=False)
        place = await reset_group(session, group, position=place, partitions=partitions)
        if place is None:
            raise Refusal.of(UNKNOWN_GROUP, group=group)
        return print_done(f"{group} continues behind position {place}, in {parts}", as_json=as_json)

    return with_session(do)


@consumers.command()
def drop(group: Name, yes: Yes = False, as_json: Json = False) -> int:
    """Delete a group and its set-aside records; the log no longer stores old records for the group."""

    async def do(session: Session) -> int:
        known = await _find(session, group)
        what = f"{group}, with {counted(known.lag_records, 'record')} to read and {known.set_aside:,} set aside,"
        if not yes:
            message = f"{what} would be deleted; nothing was changed; add --yes to do it"
            return print_done(message, as_json=as_json, done=False)
        if not await drop_group(session, group):
            raise Refusal.of(UNKNOWN_GROUP, group=group)
        return print_done(f"{what} was deleted", as_json=as_json)

    return with_session(do)


async def _find(session: Session, name: str) -> Group:
    found = next((it for it in await list_groups(session) if it.group_name == name), None)
    if found is None:
        raise Refusal.of(UNKNOWN_GROUP, group=name)
    return found


def _row(group: Group) -> tuple[object, ...]:
    members = f", {len(group.members)} leased" if group.members else ""
    return (
        group.group_name,
        f"{group.partitions}{members}",
        counted(group.lag_records, "record"),
        span_of(group.lag_s) if group.lag_records else "",
        "never at work" if group.idle_s is None else span_of(group.idle_s),
        group.failures,
        group.set_aside,
        (group.error or "")[:80],
    )
