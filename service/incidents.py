"""Resolve many incidents: find those that are meant, let their tokens go on, and say what was done and what is left."""

from collections.abc import Sequence
from dataclasses import dataclass

from service.words import counted
from sql.processes.incidents import IncidentFilter, find_incidents, resolve_incidents
from sql.session import Session

AT_ONCE_MAX = 1_000  # instances go on at once, with all that they do: what was wrong must bear it
NODES_NAMED_MAX = 5  # in one sentence


@dataclass(frozen=True, slots=True)
class Resolved:
    """Which tokens go on or, of a dry run, would, as pairs of instance and token; the one that stopped first is first.

    `more` says whether others are left.
    """

    tokens: Sequence[tuple[int, int]]
    sentence: str
    more: bool


async def resolve_many(
    session: Session, wanted: IncidentFilter, *, limit: int = AT_ONCE_MAX, dry_run: bool
) -> Resolved:
    """Resolve incidents: their tokens go on where they stopped. Signals that are dead letters are not meant.

    errors:  StoreUnavailable  the outcome is unknown: call again, what goes on already is left out
    """
    assert 0 < limit <= AT_ONCE_MAX
    found = await find_incidents(session, wanted, limit=limit + 1, only_stopped=True)
    more, meant = len(found) > limit, found[limit - 1 :: -1]
    if dry_run or not meant:
        tokens = [(one.instance_key, one.token) for one in meant]
    else:
        tokens = await resolve_incidents(session, meant)
    if not tokens:
        return Resolved([], "there is no such incident of a token that has stopped", more)
    many = counted(len(tokens), "incident")
    if not dry_run:
        return Resolved(tokens, f"{many} resolved", more)
    others = ", and there are more" if more else ""
    nodes = _named([one.node_id for one in meant])
    return Resolved(tokens, f"{many} would be resolved, at {nodes}{others}; nothing was changed", more)


def _named(node_ids: Sequence[str]) -> str:
    names = sorted(set(node_ids))
    named = names[:NODES_NAMED_MAX]
    if len(names) > NODES_NAMED_MAX:
        named.append(counted(len(names) - NODES_NAMED_MAX, "other node"))
    return ", ".join(named)
