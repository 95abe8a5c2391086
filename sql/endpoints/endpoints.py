"""The stored endpoints of tenants."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from shardclock_server.sql.session import Record, Session
from shardclock_server.sql.statements import statement

WEBHOOK = "webhook:"  # The prefix of targets that are endpoints.
# The prefix of the targets of operator events. Events have their own lanes (a lane is a queue of deliveries), so that
# an endpoint's other deliveries don't delay events. The prefix is unambiguous, because an endpoint's name contains no
# slash.
NOTIFY = f"{WEBHOOK}notify/"
COUNTED_MAX = 10_000  # the limit for counting the timers of one endpoint


def url_in_list(url: str, *, whole: bool) -> str:
    """Return a URL for a list: scheme, host and port; "/…" replaces the path and the query, which may have secrets.

    With `whole`, return the URL unchanged, for callers that may change endpoints.
    """
    if whole:
        return url
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{'/…' if parts.path.strip('/') or parts.query else ''}"


class EndpointsFull(Exception):
    """A tenant has the maximum number of endpoints."""


class EndpointName(NamedTuple):
    """The name of an endpoint; each tenant has its own names."""

    tenant_id: str
    name: str

    @property
    def target(self) -> str:
        """Return the target that timers use for this endpoint."""
        return f"{WEBHOOK}{self.name}"

    @classmethod
    def of_target(cls, tenant_id: str, target: str) -> Self:
        """Return the endpoint of a target; the target is from a timer or from an event for operators."""
        return cls(tenant_id, target.removeprefix(NOTIFY).removeprefix(WEBHOOK))


@dataclass(frozen=True, slots=True)
class StoredEndpoint:
    """One endpoint with all data that a delivery needs. Its values were validated when it was stored."""

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
        """Return the tenant and the name, which identify the endpoint."""
        return EndpointName(self.tenant_id, self.name)

    @property
    def why_closed(self) -> str | None:
        """Explain why nothing is sent to the endpoint; None if the endpoint is enabled."""
        return None if self.disabled_at is None else f"the endpoint is disabled: {self.disabled_why}"


@dataclass(frozen=True, slots=True)
class ListedEndpoint:
    """One endpoint in a list; `url` is the text of `url_in_list`.

    `waiting` is the number of open deliveries, counted up to 1,000; `failing` is the number of open deliveries with a
    failed attempt, counted up to 100. `failing_since` is the time of the firing or the redrive of the oldest failing
    delivery; None: no delivery fails. `attempts` is the number of stored attempts, at most 20; the endpoint accepted
    `accepted` of these attempts.
    """

    tenant_id: str
    name: str
    url: str
    policy: Mapping[str, Any]
    added_at: datetime
    changed_at: datetime
    disabled_at: datetime | None
    disabled_why: str | None
    waiting: int
    failing: int
    failing_since: datetime | None
    attempts: int
    accepted: int


async def find_endpoints(session: Session, wanted: Collection[EndpointName]) -> dict[EndpointName, StoredEndpoint]:
    """Find endpoints by name; an unknown endpoint has no entry in the result.

    errors:  StoreUnavailable  no answer before the timeout
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
    session: Session,
    *,
    tenant_id: str | None,
    name: str | None = None,
    after_name: str | None = None,
    whole_urls: bool = False,
    limit: int,
) -> list[ListedEndpoint]:
    """List endpoints in the order of tenants and names. `tenant_id`, `name` and `after_name` are filters; None does not
    filter.

    Without `whole_urls`, a URL is shortened to its host.

    shape:   at most `limit`
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/endpoints/list_endpoints.sql
    """
    asked = {"tenant_id": tenant_id, "name": name, "after_name": after_name, "limit": limit}
    rows = await session.rows("list_endpoints", **asked, disabled_or_failing=False)
    return [_listed(row, whole_urls=whole_urls) for row in rows]


async def list_disabled_or_failing_endpoints(session: Session, tenant_id: str, *, limit: int) -> list[ListedEndpoint]:
    """List a tenant's endpoints that are disabled or have a failing delivery, by name, with shortened URLs.

    shape:   at most `limit`
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/endpoints/list_endpoints.sql
    """
    asked = {"tenant_id": tenant_id, "name": None, "after_name": None, "limit": limit}
    rows = await session.rows("list_endpoints", **asked, disabled_or_failing=True)
    return [_listed(row, whole_urls=False) for row in rows]


def _listed(row: Record, *, whole_urls: bool) -> ListedEndpoint:
    url, policy = url_in_list(row["url"], whole=whole_urls), json.loads(row["policy"])
    return ListedEndpoint(**{**dict(row), "url": url, "policy": policy})


async def add_endpoint(session: Session, endpoint: StoredEndpoint, *, most: int | None = None) -> bool:
    """Add an endpoint; False if the tenant already has an endpoint with this name.

    errors:  EndpointsFull     the tenant already has `most` endpoints; nothing was added
             StoreUnavailable  the outcome is unknown: read whether the endpoint exists
    source:  sql/endpoints/add_endpoint.sql, sql/endpoints/lock_endpoints_of.sql, sql/endpoints/count_endpoints.sql
    """
    async with session.transaction() as connection:
        if most is not None:
            # A separate statement takes the lock, so that the next statement sees the rows that were committed during
            # the wait.
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
    """Count the endpoints of a tenant, including the disabled ones.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/endpoints/count_endpoints.sql
    """
    (row,) = await session.rows("count_endpoints", tenant_id=tenant_id)
    return int(row["endpoints"])


async def set_secrets(
    session: Session, endpoint: EndpointName, *, before: Sequence[str], secrets: Sequence[str]
) -> bool:
    """Replace the secrets of an endpoint; return False, without a change, if its secrets differ from `before`.

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
    """Change an endpoint; return False if the endpoint has these values already, or does not exist.

    None leaves a value unchanged; `headers` are the complete new headers; `policy` changes only the given keys.

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
    """Disable an endpoint; return False if it was already disabled or does not exist.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/endpoints/disable_endpoint.sql
    """
    return bool(await session.rows("disable_endpoint", **endpoint._asdict(), why=why))


async def disable_gone_endpoint(session: Session, endpoint: EndpointName, *, url: str, why: str) -> bool:
    """Disable an endpoint after its receiver answered 410 Gone at a URL, unless the endpoint has another URL now.

    The call never waits for a lock. The result is False if another transaction has locked the endpoint; then call again
    later.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/endpoints/disable_gone_endpoint.sql
    """
    (row,) = await session.rows("disable_gone_endpoint", **endpoint._asdict(), url=url, why=why)
    return bool(row["done"])


async def enable_endpoint(session: Session, endpoint: EndpointName) -> bool:
    """Enable an endpoint; return False if it was already enabled or does not exist.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/endpoints/enable_endpoint.sql
    """
    return bool(await session.rows("enable_endpoint", **endpoint._asdict()))


async def remove_endpoint(session: Session, endpoint: EndpointName) -> bool:
    """Remove an endpoint; return False if the endpoint does not exist.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/endpoints/remove_endpoint.sql
    """
    return bool(await session.rows("remove_endpoint", **endpoint._asdict()))


async def count_timers_of_endpoint(session: Session, endpoint: EndpointName) -> int:
    """Count the pending and paused timers that name an endpoint; the count stops at COUNTED_MAX.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/endpoints/count_timers_of_endpoint.sql
    """
    (row,) = await session.rows("count_timers_of_endpoint", **endpoint._asdict(), most=COUNTED_MAX)
    return int(row["timers"])
