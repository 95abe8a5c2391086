"""The handlers that an app declares: the targets that timers may name."""

from collections.abc import Sequence
from dataclasses import dataclass

from shardclock_server.sql.session import Session


@dataclass(frozen=True, slots=True)
class DeclaredHandler:
    """One handler: its target, the location of its function (`module:function`), and its policy as JSON."""

    target: str
    reference: str
    policy: str


async def declare_handlers(
    session: Session, handlers: Sequence[DeclaredHandler], *, withdraw: bool = True
) -> dict[str, str]:
    """Declare these handlers; with `withdraw`, mark all other handlers as withdrawn. Return the changes.

    shape:   by target; each change is `added`, `changed`, `withdrawn` or `back`
    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/deliveries/declare_handlers.sql
    """
    rows = await session.rows(
        "declare_handlers",
        targets=[handler.target for handler in handlers],
        references=[handler.reference for handler in handlers],
        policies=[handler.policy for handler in handlers],
        withdraw=withdraw,
    )
    return {row["target"]: row["change"] for row in rows}


async def count_handlers(session: Session) -> int:
    """Count the handlers that are declared and not withdrawn.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/deliveries/count_handlers.sql
    """
    row = await session.row("count_handlers")
    assert row is not None, "a count has a row"
    return int(row["handlers"])
