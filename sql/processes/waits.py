"""Count the waits of all running instances of one version, and find the instances that wait at one element."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from shardclock_server.sql.processes.instances import FoundInstance, StateFilter
from shardclock_server.sql.session import Session

INSTANCES_READ_MAX = 2_000  # a statement takes 40 ms for this many instances with four waits each


@dataclass(frozen=True, slots=True)
class WaitingPlace:
    """The number of instances that have the same wait at one element, and the longest of these waits.

    shape:   kind, name                         as in waits_of_definition.sql
             since, instance_key, business_key  the begin of the longest wait, and its instance
             instances_read                     the number of instances that the statement has read
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


@dataclass(frozen=True, slots=True)
class InstanceFilter:
    """Filters for instances; a field that is None filters nothing.

    `definition_key` selects the running instances of one version that wait, and `node_id` the instances that wait at
    one element of this version.
    """

    tenant_id: str | None = None
    process_id: str | None = None
    business_key: str | None = None
    state: StateFilter | None = None
    definition_key: int | None = None
    node_id: str | None = None


@dataclass(frozen=True, slots=True)
class ListedInstance:
    """One instance of a list; `since` is the start of its longest wait, None in a list without a `definition_key`."""

    found: FoundInstance
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class FoundInstances:
    """One page of instances, and the cursor of the next page; None: this is the last page."""

    instances: Sequence[ListedInstance]
    next: int | None


async def find_instances_waiting(
    session: Session, wanted: InstanceFilter, *, after: int | None, page_size: int
) -> FoundInstances:
    """Find the running instances of the version `wanted.definition_key` that wait.

    shape:   the oldest instance first. One page reads at most INSTANCES_READ_MAX instances, so a page may be short or
             empty although more pages follow
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/processes/find_instances_waiting.sql
    """
    rows = await session.rows(
        "find_instances_waiting",
        **asdict(wanted),
        instances_max=INSTANCES_READ_MAX,
        after=after,
        page_size=page_size,
    )
    found = [ListedInstance(FoundInstance(*row[:-2]), row["since"]) for row in rows if row["instance_key"] is not None]
    return FoundInstances(found, rows[0]["next"])
