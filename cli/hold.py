"""The commands that stop all firing, and that let a database fire again: hold and release."""

from functools import partial
from typing import Annotated

import typer

from shardclock_server.cli.output import DONE, NOT_DONE, Json, print_json, print_table, tell
from shardclock_server.cli.ramp import outage_of, overdue_of
from shardclock_server.cli.session import with_session
from shardclock_server.cluster.settings import load_settings
from shardclock_server.service import hold as use_cases
from shardclock_server.service.hold import NotReleased, Release
from shardclock_server.sql.session import Session


def hold(
    why: Annotated[str, typer.Argument(metavar="WHY", help="What all who look are told.", show_default=False)],
    as_json: Json = False,
) -> int:
    """Stop all firing, deliveries and processes, until `release`: timers are accepted, and kept."""
    return with_session(partial(_hold, why=why, as_json=as_json))


def release(
    yes: Annotated[bool, typer.Option("--yes", help="Do it, instead of saying what it would do.")] = False,
    as_json: Json = False,
) -> int:
    """Let a database that is on hold fire; a copy, or another installation's database, becomes ours."""
    settings = load_settings()

    async def do(session: Session) -> int:
        silent_s = settings.coordinator.silent_s
        try:
            found = await use_cases.release(session, settings.identity or "", silent_s=silent_s, dry_run=not yes)
        except NotReleased as refusal:
            tell(f"shardclock: {refusal}")
            return NOT_DONE
        _show(found, as_json=as_json)
        if found.whose.hold_reason is None:
            tell("nothing to release: it is not on hold")
        elif not yes and not as_json:
            tell("nothing was changed; add --yes to release it")
        return DONE

    return with_session(do)


async def _hold(session: Session, *, why: str, as_json: bool) -> int:
    before = await use_cases.hold(session, why)
    if as_json:
        print_json({"hold": why, "before": before})
    else:
        instead = "" if before is None else f"; instead of: {before}"
        tell(
            "on hold: within half a second nothing fires any more, and what is under way ends;"
            f" `shardclock release --yes` lets it fire{instead}"
        )
    return DONE


def _show(found: Release, *, as_json: bool) -> None:
    """Show to which installation the database belonged, to which it belongs now, and what would fire."""
    whose, status = found.whose, found.status
    if as_json:
        shown = ("pending", "overdue", "overdue_estimated", "left_by_outage")
        numbers = {name: getattr(status, name) for name in shown}
        before = {"hold": whose.hold_reason, "belongs_to": whose.name, "origin": whose.origin, "here": whose.here}
        print_json({"released": found.released, "identity": found.identity or None, **before, **numbers})
        return
    rows = [("belonged to" if found.released else "belongs to", _place(whose.name, whose.origin))]
    if whose.hold_reason is not None:
        after = "belongs to" if found.released else "would belong to"
        rows = [("on hold", whose.hold_reason), *rows, (after, _place(found.name, whose.here))]
    rows += [
        ("overdue", overdue_of(status)),
        ("left by an outage", outage_of(status, is_served=True)),
        ("pending", f"{status.pending:,}, {status.paused:,} of them paused"),
    ]
    print_table("", ["release", ""], rows)


def _place(name: str | None, origin: str | None) -> str:
    where = f"as database {origin}" if origin else "and no cluster has run on it"
    return f"{name or 'no installation by name'}, {where}"
