"""The targets that timers may name."""

from typing import Annotated

from fastapi import APIRouter, Query

from shardclock_server.gateway.access import Reader
from shardclock_server.gateway.answers.targets import TargetAnswer, TargetsAnswer
from shardclock_server.gateway.gateway import CurrentGateway
from shardclock_server.sql.deliveries.targets import list_targets

LISTED_MAX = 10_000

router = APIRouter(prefix="/v1/targets", tags=["targets"])


@router.get("", operation_id="list_targets")
async def list_all(
    gateway: CurrentGateway, caller: Reader, limit: Annotated[int, Query(ge=1, le=LISTED_MAX)] = 100
) -> TargetsAnswer:
    """List the targets of the caller's timers: the log, handlers, jobs and endpoints, with their pending deliveries."""
    async with gateway.pool.session(caller.tenants) as session:
        found = await list_targets(session, tenant_id=caller.tenant_id, limit=limit)
    return TargetsAnswer(targets=[TargetAnswer.of(target, is_operator=caller.is_operator) for target in found])
