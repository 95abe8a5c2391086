"""Find the types of service tasks that nobody is known to do: mostly a misspelt one, sometimes a program's own."""

from collections.abc import Collection, Iterable
from difflib import get_close_matches

from shardclock_server.sql.deliveries.targets import declared_targets
from shardclock_server.sql.session import Session

WEBHOOK = "webhook:"
LIKENESS = 0.8  # from 0 to 1; names of one app often begin alike, as order.pack and order.ship do


def undeclared_among(task_types: Iterable[str], declared: Collection[str]) -> tuple[str, ...]:
    """Choose the types that are neither a declared handler nor an endpoint.

    shape:   each once, by name
    """
    return tuple(sorted(set(task_types).difference(declared)))


async def notes_on(session: Session, undeclared: Iterable[str], *, tenant_id: str) -> list[str]:
    """Say of each type what must be done, in a sentence, with the declared name that is most like it.

    errors:  StoreUnavailable  no answer in time
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
