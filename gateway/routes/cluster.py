"""The cluster, as an operator sees it: who serves, what is pending and overdue, how late, and what is coming."""

from fastapi import APIRouter

from gateway.answers.cluster import ClusterAnswer
from gateway.parts import Here, Operator
from service.hold import read_hold
from sql.cluster.holders import list_holders
from sql.metrics.forecast import read_forecast
from sql.metrics.processes import measure_processes
from sql.metrics.status import read_status
from sql.session import ALL_TENANTS

router = APIRouter(prefix="/v1/cluster", tags=["cluster"])


@router.get("")
async def get_cluster(gateway: Here, _: Operator) -> ClusterAnswer:
    """Show who serves; what is pending, paused and overdue; the lag; what processes wait for; and the coming load."""
    settings = gateway.settings
    async with gateway.pool.session(ALL_TENANTS) as session:
        status, keepers = await read_status(session), await list_holders(session)
        hold = await read_hold(session, settings.identity, silent_s=settings.silent_s)
        coming, processes = await read_forecast(session), await measure_processes(session)
    return ClusterAnswer.of(status, processes, keepers, coming, hold=hold.why if hold else None)
