"""The commands that put a database on hold, and release it."""

from functools import partial
from typing import Annotated

import typer

from shardclock.api.codes import NOT_DONE
from shardclock_server.cli.output import DONE, Json, print_done, print_json, print_note, print_table
from shardclock_server.cli.ramp import outage_of, overdue_of
from shardclock_server.cli.session import with_session
from shardclock_server.cluster.settings import load_settings
from shardclock_server.service import hold as use_cases
from shardclock_server.service.hold import Release, describe_owner
from shardclock_server.sql.session import Session


def hold(
    why: Annotated[str, typer.Argument(metavar="WHY", help="The reason, which the status shows.", show_default=False)],
    as_json: Json = False,
) -> int:
    """Stop all firing, deliveries and processes until `release`; new timers are accepted and stored."""
    return with_session(partial(_hold, why=why, as_json=as_json))


def release(
    yes: Annotated[bool, typer.Option("--yes", help="Make the change; without --yes, only show the change.")] = False,
    as_json: Json = False,
) -> int:
    """Release a database on hold; this installation becomes the owner of a copy or of a foreign database."""
    settings = load_settings()

    async def do(session: Session) -> int:
        silent_s = settings.coordinator.silent_s
        found = await use_cases.release(session, settings.identity or "", silent_s=silent_s, dry_run=not yes)
        _show(found, as_json=as_json)
        if found.owner.hold_reason is None:
            print_note("nothing to release: the database is not on hold")
        elif not yes:
            if not as_json:
                print_note("nothing was changed; add --yes to release the database")
            return NOT_DONE
        return DONE

    return with_session(do)


async def _hold(session: Session, *, why: str, as_json: bool) -> int:
    before = await use_cases.hold(session, why)
    instead = "" if before is None else f"; instead of: {before}"
    message = (
        "on hold: firing stops within half a second, and running work is finished;"
        f" `shardclock release --yes` ends the hold{instead}"
    )
    return print_done(message, {"hold": why, "before": before}, as_json=as_json)


def _show(found: Release, *, as_json: bool) -> None:
    """Show the owner of the database before and after the release, and the number of timers that would fire."""
    owner, status = found.owner, found.status
    if as_json:
        shown = ("pending", "overdue", "overdue_estimated", "left_by_outage")
        numbers = {name: getattr(status, name) for name in shown}
        before = {"hold": owner.hold_reason, "belongs_to": owner.name, "origin": owner.origin, "here": owner.here}
        print_json({"released": found.released, "identity": found.identity or None, **before, **numbers})
        return
    rows = [("belonged to" if found.released else "belongs to", describe_owner(owner.name, owner.origin))]
    if owner.hold_reason is not None:
        after = "belongs to" if found.released else "would belong to"
        rows = [("on hold", owner.hold_reason), *rows, (after, describe_owner(found.name, owner.here))]
    rows += [
        ("overdue", overdue_of(status)),
        ("left by an outage", outage_of(status, is_served=True)),
        ("pending", f"{status.pending:,}, {status.paused:,} of them paused"),
    ]
    print_table("", ["release", ""], rows)
