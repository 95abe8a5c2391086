"""Whether the gateway works: for whoever starts, balances and watches it."""

from fastapi import APIRouter
from pydantic import Field

from shardclock.api.answers import Answer
from shardclock_server.gateway.gateway import Here
from shardclock_server.gateway.requests.problems import unavailable
from shardclock_server.sql.migrate import WrongSchema, require_current
from shardclock_server.sql.served import NO_TENANTS

router = APIRouter(tags=["health"])


class HealthAnswer(Answer):
    """All is well."""

    status: str = Field("ok", examples=["ok"])


@router.get("/healthz")
async def healthz() -> HealthAnswer:
    """Say that this process answers."""
    return HealthAnswer()


@router.get("/readyz")
async def readyz(gateway: Here) -> HealthAnswer:
    """Say whether it can do its work: Postgres answers, and has the schema that is needed."""
    async with gateway.health_pool.session(NO_TENANTS) as session:
        try:
            await require_current(session)
        except WrongSchema as error:
            raise unavailable(str(error)) from None
    return HealthAnswer()
