"""Set a tenant's limits, and recognize a request that a quota refuses."""

from __future__ import annotations

from shardclock_server.sql.tenant_limits.tenant_limits import set_limits
from tests.support.gateways import Said
from tests.support.sql_client import session

HOUR = {"delay": "PT1H"}
ACME = {"Shardclock_Tenant": "acme"}


async def limit(dsn: str, tenant: str = "acme", **limits: float | None) -> None:
    """Set limits of a tenant, in place of the defaults."""
    async with session(dsn, "shard") as operator:
        await set_limits(operator, tenant, limits)


def assert_over(said: Said, quota: str, most: int) -> None:
    """Assert that a request was refused because of a quota."""
    said.assert_problem(f"quota_{quota}", 429)
    assert (said.json["quota"], said.json["limit"]) == (quota, most)
    assert int(said.headers["Retry-After"]) >= 1
