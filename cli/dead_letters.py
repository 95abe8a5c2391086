"""The commands about dead letters: list, redrive, discard."""

from collections.abc import Callable
from typing import Annotated

import typer

from shardclock_server.cli.bars import ProgressBars, bars_of
from shardclock_server.cli.changed import print_changed
from shardclock_server.cli.lists import full_note, lists, none_note, print_list
from shardclock_server.cli.operator import end_interrupted, note_changed, operator, way_on
from shardclock_server.cli.options import OfTenant, key_argument, limit_option
from shardclock_server.cli.output import Json, print_note
from shardclock_server.cli.recording import note_result
from shardclock_server.cli.session import with_session
from shardclock_server.service.bulk_run import BulkBroken
from shardclock_server.service.bulk_wording import BulkResult
from shardclock_server.service.dead_letter_run import DeadLetterRun
from shardclock_server.service.dead_letters import AT_ONCE_MAX, DeadLetterChange, change_letters, discarding, redriving
from shardclock_server.service.filters import moment_of
from shardclock_server.sql.deliveries.dead_letters import (
    DeadLetter,
    DeadLetterFilter,
    find_dead_letters,
    group_dead_letters,
)
from shardclock_server.sql.session import CLIENT_PLANS, EACH_TIME, Session
from shardclock_server.timers.refusal import Refusal

Key = Annotated[int | None, key_argument("[TIMER_KEY]")]
Target = Annotated[str | None, typer.Option("--target", help="Only dead letters of this target, of any tenant.")]
Before = Annotated[
    str | None,
    typer.Option("--died-before", metavar="DATE", help="Only dead letters that were given up before this moment."),
]
ReasonLine = Annotated[
    str | None,
    typer.Option(
        "--reason-line",
        metavar="TEXT",
        help="Only dead letters with this first line of the reason; # stands for any number or id.",
    ),
]
Limit = Annotated[int, limit_option(AT_ONCE_MAX)]
AtOnce = Annotated[
    int | None,
    typer.Option(
        "--limit",
        "-n",
        metavar="N",
        min=1,
        max=AT_ONCE_MAX,
        help="The limit of dead letters; the oldest dead letters are changed first.",
    ),
]
Every = Annotated[bool, typer.Option("--all", help="All dead letters that match the filters.")]
Yes = Annotated[bool, typer.Option("--yes", help="Make the change; without --yes, only show the change.")]

dead_letters = typer.Typer(
    help="List the deliveries that were given up; the subcommands redrive or discard dead letters.",
    invoke_without_command=True,
)


@lists(dead_letters)
def list_(
    target: Target = None,
    tenant: OfTenant = None,
    died_before: Before = None,
    reason_line: ReasonLine = None,
    limit: Limit = 100,
    as_json: Json = False,
) -> int:
    """List the deliveries that were given up, newest first."""
    wanted = _filter(None, target, tenant, died_before, reason_line)

    async def do(session: Session) -> int:
        found = await _newest(session, wanted, limit)
        columns = ["timer_key", "target", "tenant", "name", "given up", "attempts", "reason"]
        none = none_note("dead letters", "there are no dead letters", filtered=wanted != DeadLetterFilter())
        more = full_note(found, limit, most=AT_ONCE_MAX)
        return print_list(
            {"dead_letters": found}, columns, [_row(it) for it in found], none=none, more=more, as_json=as_json
        )

    return with_session(do)


@dead_letters.command()
def groups(
    target: Target = None,
    tenant: OfTenant = None,
    across_tenants: Annotated[
        bool, typer.Option("--across-tenants", help="A group has the dead letters of all tenants.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Count the newest 10,000 dead letters by target and first line of the reason; print the largest group first."""

    async def do(session: Session) -> int:
        found = await group_dead_letters(session, target=target, tenant_id=tenant, across_tenants=across_tenants)
        groups = [group._asdict() for group in found.groups]
        shown = {"groups": groups, "counted": found.counted, "is_all": found.is_all}
        of_tenant = "last tenant" if across_tenants else "tenant"
        columns = ["target", of_tenant, "reason", "dead letters", "since", "last", "tenants"]
        none = none_note("dead letters", "there are no dead letters", filtered=(target, tenant) != (None, None))
        more = "" if found.is_all else f"only the newest {found.counted:,} dead letters are counted"
        return print_list(shown, columns, found.groups, none=none, more=more, as_json=as_json)

    return with_session(do)


@dead_letters.command()
def redrive(
    timer_key: Key = None,
    every: Every = False,
    target: Target = None,
    tenant: OfTenant = None,
    died_before: Before = None,
    reason_line: ReasonLine = None,
    limit: AtOnce = None,
    per_s: Annotated[
        int | None,
        typer.Option(
            "--rate", metavar="PER_SECOND", min=1, help="The number of redriven deliveries that become due per second."
        ),
    ] = None,
    enable: Annotated[
        bool,
        typer.Option("--enable", help="First enable the disabled endpoints that are targets of these dead letters."),
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    """Deliver dead letters again; the count of attempts starts again at one."""
    wanted = _chosen(timer_key, _filter(timer_key, target, tenant, died_before, reason_line), every=every)

    def change_of(session: Session) -> DeadLetterChange:
        return redriving(session, per_s=per_s, enable=enable, enable_called="--enable")

    return _do(change_of, wanted, limit, yes=yes, as_json=as_json)


@dead_letters.command()
def discard(
    timer_key: Key = None,
    every: Every = False,
    target: Target = None,
    tenant: OfTenant = None,
    died_before: Before = None,
    reason_line: ReasonLine = None,
    limit: AtOnce = None,
    reason: Annotated[str | None, typer.Option("--reason", help="The reason, which the records contain.")] = None,
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    """Discard dead letters permanently."""
    wanted = _chosen(timer_key, _filter(timer_key, target, tenant, died_before, reason_line), every=every)
    return _do(lambda session: discarding(session, reason=reason), wanted, limit, yes=yes, as_json=as_json)


async def _newest(session: Session, wanted: DeadLetterFilter, limit: int) -> list[DeadLetter]:
    """Find dead letters page by page, the newest first."""
    found: list[DeadLetter] = []
    more = True
    while more and len(found) < limit:
        after = found[-1].cursor if found else None
        page, more = await find_dead_letters(session, wanted, limit=limit - len(found), after=after)
        found += page
    return found


def _do(
    change_of: Callable[[Session], DeadLetterChange],
    wanted: DeadLetterFilter,
    limit: int | None,
    *,
    yes: bool,
    as_json: bool,
) -> int:
    """Change at most `limit` matching dead letters; without a limit, change all matching dead letters that exist now.

    errors:  BulkBroken  Postgres stopped answering during the change; the counts of the changed letters are printed
    """
    if wanted.timer_key is None and limit is None:
        return _change_all(change_of, wanted, yes=yes, as_json=as_json)

    async def do(session: Session) -> BulkResult[int]:
        by = operator() if wanted.timer_key is None else None
        changed = await change_letters(session, change_of(session), wanted, limit=limit or 1, dry_run=not yes, by=by)
        return note_changed(changed, yes=yes)

    return _show(with_session(do, plans=CLIENT_PLANS | EACH_TIME), yes=yes, as_json=as_json)


def _change_all(
    change_of: Callable[[Session], DeadLetterChange], wanted: DeadLetterFilter, *, yes: bool, as_json: bool
) -> int:
    """Change all dead letters that match a filter at this moment.

    errors:  BulkBroken  Postgres stopped answering during the change; the counts of the changed letters are printed
    """
    run: DeadLetterRun | None = None

    async def do(session: Session) -> BulkResult[int]:
        nonlocal run
        run = DeadLetterRun(operator(), change_of(session), wanted)
        try:
            with bars_of("dead letters") as bars:
                await run.run(session, ProgressBars(bars, "change"), dry_run=not yes)
        finally:
            note_result({"changed": run.changed, "operation_id": run.operation_id})
        return run.outcome(dry_run=not yes)

    try:
        return _show(with_session(do, plans=CLIENT_PLANS | EACH_TIME), yes=yes, as_json=as_json)
    except KeyboardInterrupt:
        if run is not None:
            end_interrupted(run)
            _show_part(run, as_json=as_json)
        raise
    except BulkBroken as broken:
        again = "repeat the same command for the rest"
        if run is not None:
            _show_part(run, as_json=as_json)
            again = way_on(run, again)
        raise BulkBroken(f"{broken}; {again}") from broken


def _show(changed: BulkResult[int], *, yes: bool, as_json: bool) -> int:
    return print_changed(changed, {"timer_keys": list(changed.keys)}, yes=yes, as_json=as_json)


def _show_part(run: DeadLetterRun, *, as_json: bool) -> None:
    """Print how many dead letters an interrupted command has changed."""
    if run.changed:
        _show(run.outcome(dry_run=False), yes=True, as_json=as_json)
    if run.unsure:
        print_note(f"up to {run.unsure:,} more dead letters may have been changed: the answer was lost")


def _chosen(timer_key: int | None, wanted: DeadLetterFilter, *, every: bool) -> DeadLetterFilter:
    if (timer_key is None) == (not every):
        raise Refusal("choose either one dead letter by its timer's key, or many with --all and filters")
    return wanted


def _filter(
    timer_key: int | None, target: str | None, tenant: str | None, died_before: str | None, reason_line: str | None
) -> DeadLetterFilter:
    before = None if died_before is None else moment_of("--died-before", died_before)
    return DeadLetterFilter(timer_key, target, tenant, before, reason_line)


def _row(letter: DeadLetter) -> tuple[object, ...]:
    return (
        letter.timer_key,
        letter.target,
        letter.tenant_id,
        letter.name,
        letter.died_at,
        letter.failed_attempts,
        letter.reason,
    )
