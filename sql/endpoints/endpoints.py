"""The endpoints of tenants, as they are stored."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from shardclock_server.sql.session import Session
from shardclock_server.sql.statements import statement

WEBHOOK = "webhook:"  # how targets begin that are endpoints
COUNTED_MAX = 10_000  # timers of one endpoint: more need not be told apart


class EndpointsFull(Exception):
    """Tells that a tenant has as many endpoints as it may have."""


class EndpointName(NamedTuple):
    """Which endpoint: names are each tenant's own."""

    tenant_id: str
    name: str

    @property
    def target(self) -> str:
        """Return the target that timers name."""
        return f"{WEBHOOK}{self.name}"


@dataclass(frozen=True, slots=True)
class StoredEndpoint:
    """One endpoint, with all that is needed to send; nothing of it was checked since it was added."""

    tenant_id: str
    name: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)
    policy: Mapping[str, Any]
    disabled_at: datetime | None = None
    disabled_why: str | None = None

    @property
    def key(self) -> EndpointName:
        """Return which endpoint it is."""
        return EndpointName(self.tenant_id, self.name)

    @property
    def why_closed(self) -> str | None:
        """Say why nothing is sent to it; None if it is not disabled."""
        return None if self.disabled_at is None else f"the endpoint is disabled: {self.disabled_why}"


@dataclass(frozen=True, slots=True)
class ListedEndpoint:
    """One endpoint as it is listed; `waiting` is how many deliveries are on the way, counted up to 1,000."""

    tenant_id: str
    name: str
    url: str
    policy: Mapping[str, Any]
    added_at: datetime
    changed_at: datetime
    disabled_at: datetime | None
    disabled_why: str | None
    waiting: int


async def find_endpoints(session: Session, wanted: Collection[EndpointName]) -> dict[EndpointName, StoredEndpoint]:
    """Find endpoints; one that does not exist is missing.

    errors:  StoreUnavailable  no answer in time
    source:  sql/endpoints/find_endpoints.sql
    """
    rows = await session.rows(
        "find_endpoints", tenants=[it.tenant_id for it in wanted], names=[it.name for it in wanted]
    )
    found = [
        StoredEndpoint(
            row["tenant_id"],
            row["name"],
            row["url"],
            json.loads(row["headers"]),
            tuple(row["secrets"]),
            json.loads(row["policy"]),
            row["disabled_at"],
            row["disabled_why"],
        )
        for row in rows
    ]
    return {it.key: it for it in found}


async def list_endpoints(
    session: Session, *, tenant_id: str | None, name: str | None = None, limit: int
) -> list[ListedEndpoint]:
    """List endpoints by tenant and name, all of them or one tenant's or those of one name.

    shape:   at most `limit`
    errors:  StoreUnavailable  no answer in time
    source:  sql/endpoints/list_endpoints.sql
    """
    rows = await session.rows("list_endpoints", tenant_id=tenant_id, name=name, limit=limit)
    return [ListedEndpoint(**{**dict(row), "policy": json.loads(row["policy"])}) for row in rows]


async def add_endpoint(session: Session, endpoint: StoredEndpoint, *, most: int | None = None) -> bool:
    """Add an endpoint; False if its tenant has one of this name.

    errors:  EndpointsFull     its tenant has `most` endpoints; nothing was added
             StoreUnavailable  the outcome is unknown: look whether it is there
    source:  sql/endpoints/add_endpoint.sql, sql/endpoints/lock_endpoints_of.sql, sql/endpoints/count_endpoints.sql
    """
    async with session.transaction() as connection:
        if most is not None:
            # The lock is a statement of its own: the next one sees what was committed while this one waited.
            await connection.execute(*statement("lock_endpoints_of").with_values({"tenant_id": endpoint.tenant_id}))
            if await count_endpoints(session, endpoint.tenant_id) >= most:
                raise EndpointsFull
        return bool(
            await session.rows(
                "add_endpoint",
                tenant_id=endpoint.tenant_id,
                name=endpoint.name,
                url=endpoint.url,
                headers=json.dumps(dict(endpoint.headers)),
                secrets=list(endpoint.secrets),
                policy=json.dumps(dict(endpoint.policy)),
            )
        )


async def count_endpoints(session: Session, tenant_id: str) -> int:
    """Count the endpoints of a tenant, also disabled ones.

    errors:  StoreUnavailable  no answer in time
    source:  sql/endpoints/count_endpoints.sql
    """
    (row,) = await session.rows("count_endpoints", tenant_id=tenant_id)
    return int(row["endpoints"])


async def set_secrets(
    session: Session, endpoint: EndpointName, *, before: Sequence[str], secrets: Sequence[str]
) -> bool:
    """Replace the secrets of an endpoint; False if they are no longer those `before`.

    errors:  StoreUnavailable  the outcome is unknown: read the endpoint again
    source:  sql/endpoints/set_secrets.sql
    """
    return bool(await session.rows("set_secrets", **endpoint._asdict(), before=list(before), secrets=list(secrets)))


async def change_endpoint(
    session: Session,
    endpoint: EndpointName,
    *,
    url: str | None,
    headers: Mapping[str, str] | None,
    policy: Mapping[str, Any],
) -> bool:
    """Change an endpoint; False if it is so already, or there is none.

    What is None stays; `headers` are all that there are from then on; of the policy only the keys given change.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/endpoints/change_endpoint.sql
    """
    return bool(
        await session.rows(
            "change_endpoint",
            **endpoint._asdict(),
            url=url,
            headers=None if headers is None else json.dumps(dict(headers)),
            policy=json.dumps(dict(policy)),
        )
    )


async def disable_endpoint(session: Session, endpoint: EndpointName, *, why: str) -> bool:
    """Disable an endpoint, if it works; False if it does not.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/endpoints/disable_endpoint.sql
    """
    return bool(await session.rows("disable_endpoint", **endpoint._asdict(), why=why))


async def disable_gone_endpoint(session: Session, endpoint: EndpointName, *, url: str, why: str) -> bool:
    """Disable an endpoint that answered at a URL that it wants no more, unless it leads elsewhere now.

    It waits for nobody: False if somebody has locked the endpoint; call again later.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/endpoints/disable_gone_endpoint.sql
    """
    (row,) = await session.rows("disable_gone_endpoint", **endpoint._asdict(), url=url, why=why)
    return bool(row["done"])


async def enable_endpoint(session: Session, endpoint: EndpointName) -> bool:
    """Enable an endpoint that was disabled; False if it was not.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/endpoints/enable_endpoint.sql
    """
    return bool(await session.rows("enable_endpoint", **endpoint._asdict()))


async def remove_endpoint(session: Session, endpoint: EndpointName) -> bool:
    """Remove an endpoint; False if there is none.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/endpoints/remove_endpoint.sql
    """
    return bool(await session.rows("remove_endpoint", **endpoint._asdict()))


async def count_timers_of_endpoint(session: Session, endpoint: EndpointName, *, most: int = COUNTED_MAX) -> int:
    """Count the pending timers that name an endpoint; `most` stands for so many or more.

    errors:  StoreUnavailable  no answer in time
    source:  sql/endpoints/count_timers_of_endpoint.sql
    """
    (row,) = await session.rows("count_timers_of_endpoint", **endpoint._asdict(), most=most)
    return int(row["timers"])
