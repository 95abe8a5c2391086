"""The response models of deliveries and dead letters."""

from dataclasses import asdict
from datetime import datetime
from typing import Self

from pydantic import Field

from shardclock.api import answers
from shardclock.api.answers import Answer
from shardclock_server.gateway.answers.answer import KEY, MOMENT, MOMENT_TEXT, NAME, NEXT, TENANT, examples, value_of
from shardclock_server.service.bulk_wording import BulkResult
from shardclock_server.sql.deliveries.dead_letters import DeadLetter, DeadLetterGroups
from shardclock_server.sql.deliveries.find import DeliveryState, FoundDelivery


class DeliveryAnswer(Answer):
    """A pending delivery."""

    timer_key: int = KEY
    target: str = Field(examples=["webhook:billing"])
    tenant_id: str = TENANT
    name: str | None = NAME
    state: str = Field(examples=["WAITING"])
    failed_attempts: int = Field(examples=[1])
    next_attempt_at: datetime = MOMENT
    worker: str | None = Field(
        examples=[None], description="the name of the program that has claimed this service task"
    )
    claimed_until: datetime | None = Field(
        examples=[None], description="the end of the claim; a worker may renew the claim"
    )
    last_error: str | None = Field(examples=["it answered 503"])

    @classmethod
    def of(cls, delivery: FoundDelivery | DeliveryState) -> Self:
        """Create the response model from a stored delivery."""
        return cls(**{name: getattr(delivery, name) for name in cls.model_fields})


class DeliveriesAnswer(Answer):
    """A page of deliveries, sorted by target and due date."""

    deliveries: list[DeliveryAnswer]
    next: str | None = NEXT


class DeliveryStateAnswer(Answer):
    """The present state of a delivery."""

    state: str = Field(examples=["DISCARDED"])
    message: str = Field(
        examples=["the delivery of timer 20514 is DISCARDED"], description="a sentence that describes the state"
    )


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
    """A dead letter: a delivery without further attempts."""

    @classmethod
    def of(cls, letter: DeadLetter) -> Self:
        """Create the response model from a stored dead letter."""
        fields = asdict(letter)
        return cls(**fields | {name: value_of(fields[name]) for name in ("payload", "failures")})


class DeadLetterGroupAnswer(
    answers.DeadLetterGroup,
    json_schema_extra=examples(
        target="webhook:billing",
        reason_line="it answered 503",
        dead_letters=412,
        since=MOMENT_TEXT,
        last_at="2027-02-02T08:00:00Z",
        tenant_id="shop",
        tenants=1,
    ),
):
    """The dead letters that have the same target and the same first line of the reason."""


class DeadLetterGroupsAnswer(answers.DeadLetterGroups, json_schema_extra=examples(counted=412, is_all=True)):
    """The largest groups of the newest dead letters."""

    groups: tuple[DeadLetterGroupAnswer, ...]

    @classmethod
    def of(cls, found: DeadLetterGroups) -> Self:
        """Create the response model from groups of dead letters."""
        groups = tuple(DeadLetterGroupAnswer(**group._asdict()) for group in found.groups)
        return cls(groups=groups, counted=found.counted, is_all=found.is_all)


class DeadLettersAnswer(answers.DeadLettersPage, json_schema_extra=examples()):
    """A page of dead letters, the newest first."""

    dead_letters: tuple[DeadLetterAnswer, ...]


class DeadLettersChangedAnswer(
    answers.DeadLettersChanged,
    json_schema_extra=examples(timer_keys=[20514, 20517], message="2 dead letters discarded", again_in_s=0),
):
    """The result of a change, or of a dry run, of deliveries or dead letters."""

    @classmethod
    def of(cls, acted: BulkResult[int]) -> Self:
        """Create the response model from the result of a change."""
        return cls(timer_keys=list(acted.keys), message=acted.sentence, more=acted.more, again_in_s=acted.again_in_s)
