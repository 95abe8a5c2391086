"""The subscriptions of endpoints to operator events."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from shardclock_server.sql.endpoints.endpoints import EndpointName, url_in_list
from shardclock_server.sql.session import Session


@dataclass(frozen=True, slots=True)
class EventSubscription:
    """The kinds of events that an endpoint gets.

    The endpoint gets an event of a job's failed run if at least `failures_min` runs in a row have failed. With
    `text_only`, the webhook's body contains only the text.
    """

    key: EndpointName
    kinds: tuple[str, ...]
    failures_min: int
    text_only: bool


@dataclass(frozen=True, slots=True)
class FoundSubscription:
    """A subscription in a list, with the state of its endpoint.

    `url` is the text of `url_in_list`. `last_sent_at` is the time of the last delivery, if it was within the last five
    minutes; `waiting` is the number of events since then.
    """

    tenant_id: str
    endpoint: str
    url: str
    kinds: Sequence[str]
    failures_min: int
    text_only: bool
    changed_at: datetime
    disabled_at: datetime | None
    disabled_why: str | None
    last_sent_at: datetime | None
    waiting: int


async def subscribe_endpoint(session: Session, wanted: EventSubscription) -> bool:
    """Subscribe an endpoint; replace its earlier subscription. Return False if it already has this subscription.

    errors:  StatementRefused  the endpoint does not exist
             StoreUnavailable  the outcome is unknown: call again
    source:  sql/notify/subscribe_endpoint.sql
    """
    return bool(
        await session.rows(
            "subscribe_endpoint",
            tenant_id=wanted.key.tenant_id,
            endpoint=wanted.key.name,
            kinds=list(wanted.kinds),
            failures_min=wanted.failures_min,
            text_only=wanted.text_only,
        )
    )


async def unsubscribe_endpoint(session: Session, key: EndpointName) -> bool:
    """Remove an endpoint's subscription; False if the endpoint has no subscription.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/notify/unsubscribe_endpoint.sql
    """
    return bool(await session.rows("unsubscribe_endpoint", tenant_id=key.tenant_id, endpoint=key.name))


async def find_subscriptions(
    session: Session, *, tenant_id: str | None, endpoint: str | None = None, whole_urls: bool = False, limit: int
) -> list[FoundSubscription]:
    """Find subscriptions, in the order of tenants and endpoints; None as `tenant_id` or `endpoint` does not filter.

    Without `whole_urls`, a URL is shortened to its host.

    shape:   at most `limit`
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/notify/find_subscriptions.sql
    """
    rows = await session.rows("find_subscriptions", tenant_id=tenant_id, endpoint=endpoint, limit=limit)
    return [FoundSubscription(**{**row, "url": url_in_list(row["url"], whole=whole_urls)}) for row in rows]
