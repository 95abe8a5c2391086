"""Whether the gateway works: for whoever starts, balances and watches it."""

from fastapi import APIRouter

from gateway.parts import Here
from gateway.problems import unavailable
from sql.migrate import WrongSchema, require_current

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """Say that this process answers."""
    return {"status": "ok"}


@router.get("/readyz")
async def readyz(gateway: Here) -> dict[str, str]:
    """Say whether it can do its work: Postgres answers, and has the schema that is needed."""
    async with gateway.looking.session() as session:
        try:
            await require_current(session)
        except WrongSchema as error:
            raise unavailable(str(error)) from None
    return {"status": "ok"}
