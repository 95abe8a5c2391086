"""The command that lets a copy of a database fire: release."""

from typing import Annotated

import typer

from cluster.cli.output import DONE, NOT_DONE, Json, print_json, print_table, tell
from cluster.cli.ramp import outage_of
from cluster.cli.store import with_session
from cluster.holding import objection_to
from cluster.settings import load_settings
from sql.holders import list_holders
from sql.identity import Identity, read_identity
from sql.identity import release as release_to
from sql.session import Session
from sql.status import Status, read_status


def release(
    yes: Annotated[bool, typer.Option("--yes", help="Do it, instead of saying what it would do.")] = False,
    as_json: Json = False,
) -> int:
    """Let a database that is on hold fire: make a copy, or another installation's database, this one's own."""
    identity = load_settings().identity or ""

    async def do(session: Session) -> int:
        whose, state = await read_identity(session, identity), await read_status(session)
        if whose.held_why is None:
            _show(whose, identity, state, released=False, as_json=as_json)
            tell("nothing to release: it is not on hold")
            return DONE
        refusal = objection_to(await list_holders(session), whose, identity)
        # Looked at again in the statement itself: somebody may have begun to fire meanwhile.
        released = refusal is None and yes and await release_to(session, identity)
        if refusal is not None or released is not yes:
            tell(f"shardclock: {refusal or 'it was not released: somebody else did, or fires on it; say it again'}")
            return NOT_DONE
        _show(whose, identity, state, released=released, as_json=as_json)
        if not yes and not as_json:
            tell("nothing was changed; add --yes to release it")
        return DONE

    return with_session(do)


def _show(whose: Identity, identity: str, state: Status, *, released: bool, as_json: bool) -> None:
    """Show whose the database was before, whose it becomes, and what would fire."""
    if as_json:
        numbers = {"pending": state.pending, "overdue": state.overdue, "left_by_outage": state.left_by_outage}
        before = {"hold": whose.held_why, "belongs_to": whose.name, "origin": whose.origin, "here": whose.here}
        print_json({"released": released, "identity": identity or None, **before, **numbers})
        return
    rows = [("belonged to" if released else "belongs to", _place(whose.name, whose.origin))]
    if whose.held_why is not None:
        after = "belongs to" if released else "would belong to"
        rows = [("on hold", whose.held_why), *rows, (after, _place(identity or None, whose.here))]
    rows += [
        ("overdue", f"{state.overdue:,}"),
        ("left by an outage", outage_of(state, is_served=True)),
        ("pending", f"{state.pending:,}, {state.paused:,} of them paused"),
    ]
    print_table("", ["release", ""], rows)


def _place(name: str | None, origin: str | None) -> str:
    where = f"as database {origin}" if origin else "and no cluster has run on it"
    return f"{name or 'no installation by name'}, {where}"
