"""Subscribe endpoints to events for operators, and send test events.

Results and refusals name no option of the command line.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from shardclock.api.codes import invalid
from shardclock.api.refusals.tenants import UNKNOWN_ENDPOINT, UNKNOWN_SUBSCRIPTION
from shardclock_server.service.endpoints import EndpointResult, SentTest, find_open, send_test
from shardclock_server.sql.endpoints.endpoints import EndpointName, find_endpoints
from shardclock_server.sql.notify.events import EVENT_KINDS, OPERATOR_KINDS, OPERATORS_TENANT
from shardclock_server.sql.notify.subscriptions import (
    EventSubscription,
    FoundSubscription,
    find_subscriptions,
    subscribe_endpoint,
    unsubscribe_endpoint,
)
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal, shortened
from shardclock_server.webhooks.endpoint import Endpoint, EndpointRules

FAILURES_MIN, FAILURES_MAX = 3, 1_000


@dataclass(frozen=True, slots=True)
class PreparedTest:
    """A test event, with the subscription and the endpoint to which it will be sent."""

    key: EndpointName
    endpoint: Endpoint
    body: bytes


def new_subscription(
    key: EndpointName, kinds: Sequence[str], *, failures_min: int = FAILURES_MIN, text_only: bool = False
) -> EventSubscription:
    """Check a subscription.

    errors:  Refusal  invalid_kinds, invalid_failures_min
    """
    unknown = [kind for kind in kinds if kind not in EVENT_KINDS]
    if unknown or not kinds:
        shown = shortened(unknown[0]) if unknown else "without a value"
        raise Refusal.of(invalid("kinds"), why=f"{shown} is refused: choose from {', '.join(EVENT_KINDS)}")
    if key.tenant_id != OPERATORS_TENANT and (foreign := [kind for kind in kinds if kind in OPERATOR_KINDS]):
        raise Refusal.of(
            invalid("kinds"),
            why=f"{foreign[0]} is refused for tenant {shortened(key.tenant_id)}: jobs and the cluster belong to tenant"
            f" {OPERATORS_TENANT}; subscribe an endpoint of that tenant",
        )
    if not 1 <= failures_min <= FAILURES_MAX:
        raise Refusal.of(
            invalid("failures_min"), why=f"{failures_min} is refused: it must be from 1 to {FAILURES_MAX:,}"
        )
    # In the order of EVENT_KINDS, so that equal subscriptions are equal texts.
    return EventSubscription(key, tuple(it for it in EVENT_KINDS if it in kinds), failures_min, text_only)


async def subscribe(session: Session, wanted: EventSubscription) -> EndpointResult:
    """Subscribe an endpoint, and replace its earlier subscription.

    errors:  Refusal           unknown_endpoint
             StoreUnavailable  the outcome is unknown: call again
    """
    if wanted.key not in await find_endpoints(session, [wanted.key]):
        raise Refusal.of(UNKNOWN_ENDPOINT, tenant_id=wanted.key.tenant_id, name=wanted.key.name)
    changed = await subscribe_endpoint(session, wanted)
    return EndpointResult(
        f"endpoint {wanted.key.target} gets {', '.join(wanted.kinds)}{'' if changed else ' already'}", changed
    )


async def unsubscribe(session: Session, key: EndpointName) -> EndpointResult:
    """Remove the subscription of an endpoint; the endpoint is not removed.

    errors:  Refusal           unknown_subscription
             StoreUnavailable  the outcome is unknown: call again
    """
    if not await unsubscribe_endpoint(session, key):
        raise Refusal.of(UNKNOWN_SUBSCRIPTION, tenant_id=key.tenant_id, name=key.name)
    return EndpointResult(f"endpoint {key.target} gets no more events; the endpoint itself stays")


async def find_subscription(session: Session, key: EndpointName) -> FoundSubscription:
    """Find the subscription of an endpoint.

    errors:  Refusal           unknown_subscription
             StoreUnavailable  Postgres did not answer within the timeout
    """
    found = await find_subscriptions(session, tenant_id=key.tenant_id, endpoint=key.name, limit=1)
    if not found:
        raise Refusal.of(UNKNOWN_SUBSCRIPTION, tenant_id=key.tenant_id, name=key.name)
    return found[0]


async def prepare_test(session: Session, key: EndpointName, *, rules: EndpointRules) -> PreparedTest:
    """Find the subscription and the endpoint for a test.

    errors:  Refusal           unknown_subscription; or the endpoint is disabled, or violates the present rules
             StoreUnavailable  Postgres did not answer within the timeout
    """
    found = await find_subscription(session, key)
    return PreparedTest(key, await find_open(session, key, rules=rules), _test_body(found))


async def send_test_event(prepared: PreparedTest, *, rules: EndpointRules) -> SentTest:
    """Send one test event from this machine, and wait for the answer, for up to half a minute."""
    return await send_test(prepared.endpoint, prepared.key, rules=rules, body=prepared.body)


def _test_body(found: FoundSubscription) -> bytes:
    text = f"a test: endpoint webhook:{found.endpoint} gets {', '.join(found.kinds)}"
    if found.text_only:
        return json.dumps({"text": text}).encode()
    moment = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    data = {"tenant_id": found.tenant_id, "subject": found.endpoint, "kinds": list(found.kinds), "others": 0}
    return json.dumps({"type": "notify.test", "timestamp": moment, "text": text, "data": data}).encode()
