"""The response models of the endpoints that get events for operators."""

from typing import Self

from shardclock.api import answers
from shardclock_server.gateway.answers.answer import MOMENT_TEXT, RowAnswer, examples
from shardclock_server.service.endpoints import EndpointResult


class EventSubscriptionAnswer(
    RowAnswer,
    answers.EventSubscription,
    json_schema_extra=examples(
        endpoint="chat",
        url="https://hooks.example.com/…",
        kinds=["delivery.dead", "job.failed"],
        failures_min=3,
        text_only=False,
        changed_at=MOMENT_TEXT,
        disabled_at=None,
        disabled_why=None,
        last_sent_at=None,
        waiting=0,
    ),
):
    """The kinds of events for operators that an endpoint gets, and the state of the endpoint."""


class EventSubscriptionsAnswer(answers.EventSubscriptionsPage):
    """The subscriptions of a tenant's endpoints, by the endpoint's name."""

    subscriptions: tuple[EventSubscriptionAnswer, ...]


class EventSubscriptionChangedAnswer(
    answers.EventSubscriptionChanged,
    json_schema_extra=examples(message="endpoint webhook:chat gets delivery.dead, job.failed", changed=True),
):
    """The result of subscribing or unsubscribing an endpoint."""

    @classmethod
    def of(cls, done: EndpointResult) -> Self:
        """Create the response model from the result of a change."""
        return cls(message=done.sentence, changed=done.changed)
