"""Write the message of a webhook, and decide the settlement after the endpoint's answer (pure)."""

from datetime import UTC, datetime

from shardclock import Completed, Failed, Outcome, Policy, RetryLater
from shardclock.backoff import Jitter
from shardclock_server.sql.deliveries.claim import ClaimedDelivery
from shardclock_server.sql.deliveries.settle import DeliveryEnding, Settlement
from shardclock_server.sql.endpoints.endpoints import NOTIFY
from shardclock_server.webhooks.answer_classification import (
    OWN_PAUSE_S,
    Answer,
    Delivered,
    EndpointGone,
    FaultSide,
    RetryDelivery,
)
from shardclock_server.webhooks.envelope import write_body
from shardclock_server.webhooks.sender import WebhookMessage
from shardclock_server.workers.attempts import backoff_s, settlement_of


def message_of(delivery: ClaimedDelivery) -> WebhookMessage:
    """Write the message of an attempt.

    All attempts of a delivery, including attempts after a redrive, have the same id and bytes.
    """
    message_id = f"timer_{delivery.timer_key}"
    if delivery.target.startswith(NOTIFY):
        # The payload of an event for operators is the complete body: sql/functions/notify/body_of_event.sql.
        return WebhookMessage(message_id, (delivery.payload or "{}").encode())
    fields: dict[str, str | int | None] = {
        "timer_key": delivery.timer_key,
        "due_date": delivery.due_date.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "occurrence": delivery.occurrence,
        "tenant_id": delivery.tenant_id,
        "target": delivery.target,
        "timer_type": delivery.timer_type,
        "name": delivery.name,
        "schedule": delivery.schedule,
        "target_element_id": delivery.target_element_id,
        "process_instance_key": delivery.process_instance_key,
        "element_instance_key": delivery.element_instance_key,
    }
    return WebhookMessage(message_id, write_body(delivery.fired_at, fields, delivery.payload))


def settlement_after(
    delivery: ClaimedDelivery, answer: Answer, policy: Policy, *, now: datetime, jitter: Jitter
) -> Settlement:
    """Return the settlement of a delivery after an endpoint's answer."""
    outcome: Outcome
    match answer:
        case Delivered(status):
            outcome = Completed({"status": status})
        case EndpointGone(reason):
            return Settlement(delivery, DeliveryEnding.DEAD, fails=True, duration_s=answer.duration_s, reason=reason)
        case RetryDelivery(fault=FaultSide.SENDER):
            # The request was not sent, so don't count an attempt.
            return Settlement(delivery, None, delay_s=OWN_PAUSE_S if answer.after_s is None else answer.after_s)
        case _ if answer.after_s is None:
            outcome = Failed(answer.reason)
        case _:
            # The endpoint asks for a pause; the policy's pause may be longer.
            pause_s = max(answer.after_s, backoff_s(delivery.failed_attempts + 1, policy, jitter=jitter))
            outcome = RetryLater(pause_s, answer.reason)
    return settlement_of(delivery, outcome, policy, now=now, duration_s=answer.duration_s, jitter=jitter)
