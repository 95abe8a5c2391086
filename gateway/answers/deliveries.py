"""What is answered about deliveries, on their way or given up."""

from dataclasses import asdict
from datetime import datetime
from typing import Self

from pydantic import Field

from shardclock.api import answers
from shardclock.api.answers import Answer
from shardclock_server.gateway.answers.answer import KEY, MOMENT, MOMENT_TEXT, NAME, NEXT, TENANT, examples, value_of
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


class DeadLetterAnswer(
    answers.DeadLetter,
    json_schema_extra=examples(
        target="webhook:billing",
        occurrence=1,
        fired_at=MOMENT_TEXT,
        died_at="2027-02-02T08:00:00Z",
        failed_attempts=20,
        reason="it answered 503",
        failures=[{"attempt": 20, "at": "2027-02-02T08:00:00Z", "reason": "it answered 503"}],
    ),
):
    """A delivery that was given up."""

    @classmethod
    def of(cls, letter: DeadLetter) -> Self:
        """Make it of what was found."""
        fields = asdict(letter)
        return cls(**fields | {name: value_of(fields[name]) for name in ("payload", "failures")})


class DeadLettersAnswer(answers.DeadLettersPage, json_schema_extra=examples()):
    """Some dead letters, the newest first."""

    dead_letters: tuple[DeadLetterAnswer, ...]


class ActedAnswer(
    answers.Acted,
    json_schema_extra=examples(timer_keys=[20514, 20517], said="2 dead letters discarded", again_in_s=0),
):
    """What was done with deliveries or dead letters, or would be."""

    @classmethod
    def of(cls, acted: Changed[int]) -> Self:
        """Make it of what was done."""
        return cls(timer_keys=list(acted.keys), said=acted.sentence, more=acted.more, again_in_s=acted.again_in_s)
