"""Cancel all running instances that have one business key."""

from collections.abc import Sequence

from shardclock_server.service.bulk_wording import BulkResult, BulkWording
from shardclock_server.sql.processes.instances import FoundInstance, cancel_instance, find_instances
from shardclock_server.sql.session import Session

AT_ONCE_MAX = 1_000


async def cancel_many(
    session: Session,
    business_key: str,
    *,
    process_id: str | None = None,
    tenant_id: str | None = None,
    limit: int = AT_ONCE_MAX,
    dry_run: bool,
) -> BulkResult[int]:
    """Cancel all unfinished instances with a business key, and cancel their timers and tasks.

    shape:   the newest instance first
    errors:  StoreUnavailable  the outcome is unknown: call again; already cancelled instances are not affected
    """
    assert 0 < limit <= AT_ONCE_MAX
    found = await _not_ended(session, business_key, process_id=process_id, tenant_id=tenant_id, most=limit + 1)

    async def cancel(selected: Sequence[FoundInstance]) -> list[int]:
        keys = [one.instance_key for one in selected]
        return [key for key in keys if await cancel_instance(session, key, tenant_id=tenant_id) == "SENT"]

    cancelling: BulkWording[FoundInstance, int] = BulkWording(
        ("instance", "instances"),
        none="no instance with this business key starts or runs",
        would="be cancelled",
        done="{many} {are} told to end",
        key_of=lambda one: one.instance_key,
        change=cancel,
    )
    return await cancelling.run(found[:limit], more=len(found) > limit, dry_run=dry_run)


async def _not_ended(
    session: Session, business_key: str, *, process_id: str | None, tenant_id: str | None, most: int
) -> list[FoundInstance]:
    found: list[FoundInstance] = []
    before = None
    while len(found) < most:
        page = await find_instances(
            session, tenant_id=tenant_id, process_id=process_id, business_key=business_key, before=before
        )
        if not page:
            break
        found += [one for one in page if one.ended_at is None]
        before = page[-1].instance_key
    return found[:most]
