"""Find targets with waiting deliveries that no running worker has in its app."""

from dataclasses import dataclass

from shardclock_server.sql.session import Session

COUNTED_MAX = 1_000  # the limit for counting one target's waiting deliveries


@dataclass(frozen=True, slots=True)
class UnservedTarget:
    """A handler or a job that no running worker has in its app; its waiting deliveries, counted up to COUNTED_MAX."""

    target: str
    waiting: int


async def find_unserved_targets(session: Session, target: str | None = None) -> list[UnservedTarget]:
    """Find handlers with due deliveries, and jobs with fired starts, if no running worker has them in its app.

    shape:   at most 100, by target; often empty
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/deliveries/find_unserved_targets.sql
    """
    rows = await session.rows("find_unserved_targets", target=target, most=COUNTED_MAX)
    return [UnservedTarget(*row) for row in rows]
