"""The command that lets a copy of a database fire: release."""

from typing import Annotated

import typer

from cli.output import DONE, NOT_DONE, Json, print_json, print_table, tell
from cli.ramp import outage_of, overdue_of
from cli.session import with_session
from cluster.settings import load_settings
from service.hold import living_of, objection_to
from sql.cluster.holders import list_holders
from sql.cluster.identity import Identity, read_identity
from sql.cluster.identity import release as release_to
from sql.metrics.status import Status, read_status
from sql.session import Session


def release(
    yes: Annotated[bool, typer.Option("--yes", help="Do it, instead of saying what it would do.")] = False,
    as_json: Json = False,
) -> int:
    """Let a database that is on hold fire: a copy, or another installation's database, becomes ours."""
    settings = load_settings()
    identity = settings.identity or ""

    async def do(session: Session) -> int:
        whose, state = await read_identity(session, identity), await read_status(session)
        if whose.hold_reason is None:
            _show(whose, identity, state, released=False, as_json=as_json)
            tell("nothing to release: it is not on hold")
            return DONE
        refusal = objection_to(living_of(await list_holders(session), settings.coordinator.silent_s), identity)
        # The statement checks again: another cluster may have begun to fire in the meantime.
        released = refusal is None and yes and await release_to(session, identity)
        if refusal is not None or released is not yes:
            tell(
                f"shardclock: {refusal or 'not released: another command did it, or a cluster fires on it; try again'}"
            )
            return NOT_DONE
        _show(whose, identity, state, released=released, as_json=as_json)
        if not yes and not as_json:
            tell("nothing was changed; add --yes to release it")
        return DONE

    return with_session(do)


def _show(whose: Identity, identity: str, state: Status, *, released: bool, as_json: bool) -> None:
    """Show to which installation the database belonged, to which it belongs now, and what would fire."""
    if as_json:
        numbers = {name: getattr(state, name) for name in ("pending", "overdue", "overdue_estimated", "left_by_outage")}
        before = {"hold": whose.hold_reason, "belongs_to": whose.name, "origin": whose.origin, "here": whose.here}
        print_json({"released": released, "identity": identity or None, **before, **numbers})
        return
    rows = [("belonged to" if released else "belongs to", _place(whose.name, whose.origin))]
    if whose.hold_reason is not None:
        after = "belongs to" if released else "would belong to"
        rows = [("on hold", whose.hold_reason), *rows, (after, _place(identity or None, whose.here))]
    rows += [
        ("overdue", overdue_of(state)),
        ("left by an outage", outage_of(state, is_served=True)),
        ("pending", f"{state.pending:,}, {state.paused:,} of them paused"),
    ]
    print_table("", ["release", ""], rows)


def _place(name: str | None, origin: str | None) -> str:
    where = f"as database {origin}" if origin else "and no cluster has run on it"
    return f"{name or 'no installation by name'}, {where}"
