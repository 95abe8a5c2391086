"""Find service task types without a handler or endpoint: the type is misspelt, or external programs do its tasks."""

from collections.abc import Collection, Iterable
from difflib import get_close_matches

from shardclock_server.sql.deliveries.targets import declared_targets
from shardclock_server.sql.session import Session

WEBHOOK = "webhook:"
LIKENESS = 0.8  # high, because different names of one app are often similar: order.pack, order.ship


def undeclared_among(task_types: Iterable[str], declared: Collection[str]) -> tuple[str, ...]:
    """Return the types that are neither a declared handler nor an endpoint.

    shape:   distinct, sorted by name
    """
    return tuple(sorted(set(task_types).difference(declared)))


async def notes_on(session: Session, undeclared: Iterable[str], *, tenant_id: str) -> list[str]:
    """Write a warning for each type, with the nearest declared name.

    errors:  StoreUnavailable  Postgres did not answer within the timeout
    """
    types = sorted(set(undeclared))
    declared = await declared_targets(session, tenant_id) if types else []
    return [_note_on(task_type, declared) for task_type in types]


def _note_on(task_type: str, declared: Collection[str]) -> str:
    near = get_close_matches(task_type, declared, n=1, cutoff=LIKENESS)
    meant = f" (did you mean {near[0]}?)" if near else ""
    if task_type.startswith(WEBHOOK):
        name = task_type.removeprefix(WEBHOOK)
        return f"there is no endpoint {name}{meant}: until there is one, each of its tasks becomes an incident"
    way_out = "until one does, a program must take it, over HTTP or in SQL"
    return f"no app has declared the handler {task_type}{meant}: {way_out}"
