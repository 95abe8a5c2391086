"""Count the waits of all running instances of one version."""

from dataclasses import dataclass
from datetime import datetime

from shardclock_server.sql.session import Session

INSTANCES_READ_MAX = 2_000  # with four waits each they take 40 ms


@dataclass(frozen=True, slots=True)
class WaitingPlace:
    """The instances that wait at one element for one thing, and the longest of these waits.

    shape:   `kind` and `name` as in waits_of_definition.sql; `since`, `instance_key` and `business_key` belong to the
             longest wait; `instances_read` is the number of instances that the statement has read
    """

    node_id: str | None
    kind: str
    name: str | None
    instances: int
    since: datetime
    instance_key: int
    business_key: str | None
    instances_read: int


async def waits_of_definition(
    session: Session, definition_key: int, *, instances_max: int = INSTANCES_READ_MAX
) -> list[WaitingPlace]:
    """Count the instances of a version at each wait, among its oldest running instances.

    shape:   the longest wait first, at most 200 places; empty if no instance waits
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/processes/waits_of_definition.sql
    """
    rows = await session.rows("waits_of_definition", definition_key=definition_key, instances_max=instances_max)
    return [WaitingPlace(*row) for row in rows]
