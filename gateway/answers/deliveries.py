"""What is answered about deliveries, on their way or given up."""

from dataclasses import asdict
from datetime import datetime
from typing import Any, Self

from pydantic import Field

from shardclock_server.gateway.answers.answer import (
    DUE,
    KEY,
    MOMENT,
    MORE,
    NAME,
    NEXT,
    PAYLOAD,
    TENANT,
    Answer,
    value_of,
)
from shardclock_server.service.many import Changed
from shardclock_server.sql.deliveries.dead_letters import DeadLetter
from shardclock_server.sql.deliveries.find import DeliveryState, FoundDelivery


class DeliveryAnswer(Answer):
    """A delivery that is on its way."""

    timer_key: int = KEY
    target: str = Field(examples=["webhook:billing"])
    tenant_id: str = TENANT
    name: str | None = NAME
    state: str = Field(examples=["WAITING"])
    failed_attempts: int = Field(examples=[1])
    next_attempt_at: datetime = MOMENT
    worker: str | None = Field(
        examples=[None], description="what a program calls itself that has this service task in hand"
    )
    claimed_until: datetime | None = Field(
        examples=[None], description="how long it is in hand, unless that is renewed"
    )
    last_error: str | None = Field(examples=["it answered 503"])

    @classmethod
    def of(cls, delivery: FoundDelivery | DeliveryState) -> Self:
        """Make it of what was found."""
        return cls(**{name: getattr(delivery, name) for name in cls.model_fields})


class DeliveriesAnswer(Answer):
    """Some deliveries, by target, what is due first coming first."""

    deliveries: list[DeliveryAnswer]
    next: str | None = NEXT


class DeliveryStateAnswer(Answer):
    """The state that a delivery has now."""

    state: str = Field(examples=["DISCARDED"])
    said: str = Field(examples=["the delivery of timer 20514 is DISCARDED"], description="the same for people")


class DeadLetterAnswer(Answer):
    """A delivery that was given up."""

    timer_key: int = KEY
    target: str = Field(examples=["webhook:billing"])
    tenant_id: str = TENANT
    name: str | None = NAME
    occurrence: int = Field(examples=[1])
    due_date: datetime = DUE
    fired_at: datetime = MOMENT
    died_at: datetime = Field(examples=["2027-02-02T08:00:00Z"])
    failed_attempts: int = Field(examples=[20])
    reason: str = Field(examples=["it answered 503"])
    payload: Any = PAYLOAD
    failures: Any = Field(
        examples=[[{"attempt": 20, "at": "2027-02-02T08:00:00Z", "reason": "it answered 503"}]],
        description="how each of the last attempts failed",
    )

    @classmethod
    def of(cls, letter: DeadLetter) -> Self:
        """Make it of what was found."""
        fields = asdict(letter)
        return cls(**fields | {name: value_of(fields[name]) for name in ("payload", "failures")})


class DeadLettersAnswer(Answer):
    """Some dead letters, the newest first."""

    dead_letters: list[DeadLetterAnswer]
    next: str | None = NEXT


class ActedAnswer(Answer):
    """What was done with deliveries or dead letters, or would be."""

    timer_keys: list[int] = Field(
        examples=[[20514, 20517]], description="of those that were changed; of dead letters, the oldest comes first"
    )
    said: str = Field(examples=["2 dead letters discarded"], description="the same for people")
    more: bool = MORE
    again_in_s: int = Field(examples=[0], description="after so many seconds the others may be acted on")

    @classmethod
    def of(cls, acted: Changed[int]) -> Self:
        """Make it of what was done."""
        return cls(timer_keys=list(acted.keys), said=acted.sentence, more=acted.more, again_in_s=acted.again_in_s)
