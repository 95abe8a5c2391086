"""The commands about deliveries that were given up: dead-letters, with redrive and discard."""

from collections.abc import Callable
from typing import Annotated

import typer

from shardclock_server.cli.bars import OnBars, bars_of
from shardclock_server.cli.changed import print_changed
from shardclock_server.cli.lists import lists, tell_if_full, tell_none
from shardclock_server.cli.options import OfTenant
from shardclock_server.cli.output import DONE, Json, print_json, print_table, tell
from shardclock_server.cli.session import with_session
from shardclock_server.service.bulk_run import BulkBroken
from shardclock_server.service.dead_letter_run import DeadLetterRun
from shardclock_server.service.dead_letters import AT_ONCE_MAX, Act, act_on, discarding, redriving
from shardclock_server.service.filters import moment_of
from shardclock_server.service.many import Changed
from shardclock_server.sql.deliveries.dead_letters import DeadLetter, DeadLetterFilter, find_dead_letters
from shardclock_server.sql.session import CLIENT_PLANS, EACH_TIME, Session
from shardclock_server.timers.refusal import Refusal

Key = Annotated[int | None, typer.Argument(metavar="[TIMER_KEY]", min=1, show_default=False)]
Target = Annotated[str | None, typer.Option("--target", help="Only of this target, whichever tenant's.")]
Before = Annotated[str | None, typer.Option("--died-before", metavar="DATE", help="Only those given up before.")]
Limit = Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=AT_ONCE_MAX, help="At most N.")]
AtOnce = Annotated[
    int | None,
    typer.Option(
        "--limit", "-n", metavar="N", min=1, max=AT_ONCE_MAX, help="At most N, those that were given up first."
    ),
]
Every = Annotated[bool, typer.Option("--all", help="All dead letters, or with filters all of these.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it, instead of saying what it would do.")]

dead_letters = typer.Typer(
    help="List the deliveries that were given up; the subcommands redrive or discard them.",
    invoke_without_command=True,
)


@lists(dead_letters)
def list_(
    target: Target = None,
    tenant: OfTenant = None,
    died_before: Before = None,
    limit: Limit = 100,
    as_json: Json = False,
) -> int:
    """List the deliveries that were given up, the last one first."""
    wanted = _filter(None, target, tenant, died_before)

    async def do(session: Session) -> int:
        found = await _newest(session, wanted, limit)
        if as_json:
            print_json(found)
        elif found:
            columns = ["timer_key", "target", "tenant", "name", "given up", "attempts", "reason"]
            print_table("", columns, [_row(letter) for letter in found])
            tell_if_full(found, limit, most=AT_ONCE_MAX)
        else:
            tell_none("dead letters", "there are no dead letters", filtered=wanted != DeadLetterFilter())
        return DONE

    return with_session(do)


@dead_letters.command()
def redrive(
    timer_key: Key = None,
    every: Every = False,
    target: Target = None,
    tenant: OfTenant = None,
    died_before: Before = None,
    limit: AtOnce = None,
    per_s: Annotated[
        int | None, typer.Option("--rate", metavar="PER_SECOND", min=1, help="So many become due in a second.")
    ] = None,
    enable: Annotated[
        bool, typer.Option("--enable", help="Enable their endpoints first, if these are disabled.")
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    """Deliver dead letters again, from their first attempt on."""
    wanted = _chosen(timer_key, target, tenant, died_before, every=every)

    def act(session: Session) -> Act:
        return redriving(session, per_s=per_s, enable=enable, enable_called="--enable")

    return _do(act, wanted, limit, yes=yes, as_json=as_json)


@dead_letters.command()
def discard(
    timer_key: Key = None,
    every: Every = False,
    target: Target = None,
    tenant: OfTenant = None,
    died_before: Before = None,
    limit: AtOnce = None,
    reason: Annotated[str | None, typer.Option("--reason", help="Why, for the records.")] = None,
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    """Discard dead letters for good."""
    wanted = _chosen(timer_key, target, tenant, died_before, every=every)
    return _do(lambda session: discarding(session, reason=reason), wanted, limit, yes=yes, as_json=as_json)


async def _newest(session: Session, wanted: DeadLetterFilter, limit: int) -> list[DeadLetter]:
    """Find dead letters, the one that was given up last first, page by page."""
    found: list[DeadLetter] = []
    more = True
    while more and len(found) < limit:
        after = found[-1].place if found else None
        page, more = await find_dead_letters(session, wanted, limit=limit - len(found), after=after)
        found += page
    return found


def _do(
    act_of: Callable[[Session], Act], wanted: DeadLetterFilter, limit: int | None, *, yes: bool, as_json: bool
) -> int:
    """Act on the dead letters that are meant: on `limit` of them, or on all that there are now.

    errors:  BulkBroken  Postgres stopped answering half way; what was done until then is printed
    """
    run: DeadLetterRun | None = None

    async def do(session: Session) -> Changed[int]:
        nonlocal run
        act = act_of(session)
        if limit is not None:
            return await act_on(session, act, wanted, limit=limit, dry_run=not yes)
        run = DeadLetterRun(act, wanted)
        with bars_of("dead letters") as bars:
            await run.run(session, OnBars(bars, "change"), dry_run=not yes)
        return run.outcome(dry_run=not yes)

    def show(changed: Changed[int]) -> int:
        return print_changed(changed, {"timer_keys": list(changed.keys)}, yes=yes, as_json=as_json)

    try:
        return show(with_session(do, plans=CLIENT_PLANS | EACH_TIME))
    except (BulkBroken, KeyboardInterrupt) as broken:
        if run is not None and run.changed:
            show(run.outcome(dry_run=False))
        if run is not None and run.unsure:
            tell(f"up to {run.unsure:,} more may have been changed: the answer was lost")
        if isinstance(broken, KeyboardInterrupt):
            raise
        raise BulkBroken(f"{broken}; the same command again does the rest") from broken


def _chosen(
    timer_key: int | None, target: str | None, tenant: str | None, died_before: str | None, *, every: bool
) -> DeadLetterFilter:
    if (timer_key is None) == (not every):
        raise Refusal("say either one dead letter, by its timer's key, or many, by --all and filters")
    return _filter(timer_key, target, tenant, died_before)


def _filter(timer_key: int | None, target: str | None, tenant: str | None, died_before: str | None) -> DeadLetterFilter:
    before = None if died_before is None else moment_of("--died-before", died_before)
    return DeadLetterFilter(timer_key, target, tenant, before)


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
