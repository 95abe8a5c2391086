"""The handlers that an app declares: the targets that timers may name."""

from collections.abc import Sequence
from dataclasses import dataclass

from sql.session import Session


@dataclass(frozen=True, slots=True)
class DeclaredHandler:
    """One handler: its target, where its function is (`module:function`), and its policy as JSON."""

    target: str
    reference: str
    policy: str


async def declare_handlers(session: Session, handlers: Sequence[DeclaredHandler]) -> dict[str, str]:
    """Make these the handlers that timers may name, and withdraw all others; return what changed, by target.

    shape:   each change is `added`, `changed`, `withdrawn` or `back`
    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/deliveries/declare_handlers.sql
    """
    rows = await session.rows(
        "declare_handlers",
        targets=[handler.target for handler in handlers],
        references=[handler.reference for handler in handlers],
        policies=[handler.policy for handler in handlers],
    )
    return {row["target"]: row["change"] for row in rows}
