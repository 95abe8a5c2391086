"""Targets with waiting deliveries that no living worker has in its app."""

from dataclasses import dataclass

from shardclock_server.sql.session import Session

COUNTED_MAX = 1_000  # the limit for counting one target's waiting deliveries


@dataclass(frozen=True, slots=True)
class UnservedTarget:
    """A handler or a job that no living worker has in its app, and its waiting deliveries, up to COUNTED_MAX."""

    target: str
    waiting: int


async def find_unserved_targets(session: Session, target: str | None = None) -> list[UnservedTarget]:
    """Find the handlers with due deliveries, and the jobs with fired starts, that no living worker has in its app.

    shape:   at most 100, by target; often empty
    errors:  StoreUnavailable  no answer in time
    source:  sql/deliveries/find_unserved_targets.sql
    """
    rows = await session.rows("find_unserved_targets", target=target, most=COUNTED_MAX)
    return [UnservedTarget(*row) for row in rows]
