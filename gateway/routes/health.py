"""The health of a gateway: for service managers, load balancers and monitoring."""

from fastapi import APIRouter
from pydantic import Field

from shardclock.api.answers import Answer
from shardclock_server.gateway.gateway import CurrentGateway
from shardclock_server.gateway.requests.problems import unavailable
from shardclock_server.sql.migrate import WrongSchema, require_current
from shardclock_server.sql.served import NO_TENANTS

router = APIRouter(tags=["health"])


class HealthAnswer(Answer):
    """The response of a healthy gateway."""

    status: str = Field("ok", examples=["ok"])


@router.get("/healthz")
async def healthz() -> HealthAnswer:
    """Answer 200 while the process runs."""
    return HealthAnswer()


@router.get("/readyz")
async def readyz(gateway: CurrentGateway) -> HealthAnswer:
    """Answer 200 if the gateway can serve requests: Postgres answers, and has the right schema."""
    async with gateway.health_pool.session(NO_TENANTS) as session:
        try:
            await require_current(session)
        except WrongSchema as error:
            raise unavailable(str(error)) from None
    return HealthAnswer()
