"""List instances by a filter, page by page."""

from shardclock.api.codes import invalid
from shardclock_server.sql.processes.instances import find_instances
from shardclock_server.sql.processes.waits import (
    FoundInstances,
    InstanceFilter,
    ListedInstance,
    find_instances_waiting,
)
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal


async def list_instances(
    session: Session, wanted: InstanceFilter, *, size: int, after: int | None = None
) -> FoundInstances:
    """Find one page of instances; `after` is the `next` of the previous page.

    shape:   at most `size`, the newest first; with a `definition_key`, the oldest first, and a page may be short or
             empty although more pages follow
    errors:  Refusal           invalid_node_id
             StoreUnavailable  no answer before the timeout
    """
    if wanted.node_id is not None and wanted.definition_key is None:
        raise Refusal.of(
            invalid("node_id"), why="needs the definition_key of a version: each version has its own elements"
        )
    if wanted.definition_key is not None:
        return await find_instances_waiting(session, wanted, after=after, page_size=size)
    found = await find_instances(
        session,
        tenant_id=wanted.tenant_id,
        process_id=wanted.process_id,
        business_key=wanted.business_key,
        state=wanted.state,
        before=after,
        page_size=size,
    )
    listed = [ListedInstance(it) for it in found]
    return FoundInstances(listed, next=found[-1].instance_key if len(found) == size else None)
