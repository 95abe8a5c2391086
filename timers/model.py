"""Define the fields of a new timer, and the part of a claimed timer that a shard keeps in memory."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, NamedTuple, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from shardclock.api.codes import invalid
from shardclock.api.refusals.timers import NEEDS_ONE_MOMENT
from shardclock_server.timers.duration import Duration, parse_duration
from shardclock_server.timers.moment import parse_due_date
from shardclock_server.timers.payload import compact_payload, payload_of, read_json
from shardclock_server.timers.refusal import InvalidTimer, refusal_of, shortened
from shardclock_server.timers.schedule import Missed, parse_schedule
from shardclock_server.timers.zone import UTC_ZONE, agreed_zone, zone_of

SLOTS = 840
LINE_BYTES_MAX = 131_072
NAME_CHARS_MAX = 200
BIGINT_MAX = 9_223_372_036_854_775_807
INTEGER_MAX = 2_147_483_647  # the largest integer of Postgres
NO_OTHER_NAMES: Mapping[str, str] = MappingProxyType({})
MOMENTS = ("due_date", "delay", "schedule")  # a timer has exactly one of these three fields


def slot_of(timer_key: int) -> int:
    """Compute a timer's slot in the same way as the table's generated column."""
    return timer_key % SLOTS


class TimerType(StrEnum):
    """The kind of a process element to which a timer belongs; USER: the timer belongs to no element."""

    BOUNDARY = "BOUNDARY"
    INTERMEDIATE = "INTERMEDIATE"
    START_EVENT = "START_EVENT"
    USER = "USER"


class OnConflict(StrEnum):
    """The rules for a new timer if a pending timer has the same name."""

    REFUSE = "refuse"
    IGNORE = "ignore"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class ClaimedTimer:
    """The columns that a shard needs to fire a timer.

    A schedule without `anchor_occurrence` has no first due date yet. If a resume chose `missed` for the occurrences
    before the resume, `missed_before` is the moment of the resume; None: `missed` is the schedule's policy.
    `starts_job`: the target is a job. `tenant_id` is a schedule's tenant, None for a plain timer. `version` is the
    `xmin` of the row that was read; a firing of another version has no effect (the fence). `request_number` is the
    number of the request to Postgres that read the row; a result with a higher number is newer. The order of requests
    is a number and not a time, because clocks may be set back.
    """

    timer_key: int
    due_date: datetime
    schedule: str | None
    zone: str
    missed: str
    missed_before: datetime | None
    anchor: datetime | None
    anchor_occurrence: int | None
    occurrence: int
    repetitions: int
    starts_job: bool
    tenant_id: str | None
    version: int
    request_number: int


def _text_read_by(parse: Callable[[str, str], object]) -> PlainValidator:
    def read(value: object, info: ValidationInfo) -> object:
        if value is None:
            return None
        if not isinstance(value, str):
            raise ValueError("not a text")  # noqa: TRY004 - pydantic reports no TypeError
        # An invalid zone is missing in these values; pydantic reports it separately.
        return parse(value, info.data.get("zone", "UTC"))

    return PlainValidator(read, json_schema_input_type=str | None)


def _due_date(text: str, zone: str) -> datetime:
    # Pass no zone for UTC, because UTC may be only the default, and then a local time without an offset is refused.
    return parse_due_date(text, None if zone == "UTC" else zone_of(zone))


def _delay(text: str, _zone: str) -> Duration:
    return parse_duration(text)


def _schedule(text: str, zone: str) -> str:
    parse_schedule(text, zone)
    # Keep the client's text, because a repeated request is compared by this text: docs/decisions/0033-on-conflict.md.
    return text


def _zone(name: str) -> str:
    return zone_of(name).key


def _payload(value: object, info: ValidationInfo) -> str | None:
    if value is None:
        return None
    return compact_payload(value) if _Reading.of(info).was_read else payload_of(value)


class _Reading(NamedTuple):
    """The context of a validation: the user's names of the fields, and whether `read_json` has parsed the values."""

    called: Mapping[str, str]
    was_read: bool

    @staticmethod
    def of(info: ValidationInfo) -> "_Reading":
        assert isinstance(info.context, _Reading), "`from_fields` gives it"
        return info.context


Name = Annotated[str, StringConstraints(min_length=1, max_length=NAME_CHARS_MAX, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$")]
Key = Annotated[int, Field(ge=1, le=BIGINT_MAX)]


NAME_RULE = f"1 to {NAME_CHARS_MAX} characters of text, none of them a control character"
KEY_RULE = f"a whole number from 1 to {BIGINT_MAX}"


class NewTimer(BaseModel):
    """A request for a timer, with exactly one of due date, delay and schedule."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    # The zone is the first field, because the parsers of the later fields use the zone.
    zone: Annotated[str, AfterValidator(_zone)] = Field(
        "UTC", description="an IANA time zone, as text such as Europe/Berlin"
    )
    due_date: Annotated[datetime | None, _text_read_by(_due_date)] = Field(
        None,
        description="an ISO 8601 date-time with an offset, as text such as 2026-01-31T08:00:00Z,"
        " or a local time of the zone",
    )
    delay: Annotated[Duration | None, _text_read_by(_delay)] = Field(
        None, description="an ISO 8601 duration, as text such as PT15M"
    )
    schedule: Annotated[str | None, _text_read_by(_schedule)] = Field(
        None, description="an ISO 8601 repeat or cron, as text such as R/PT1H or 0 0 8 * * MON-FRI"
    )
    missed: Missed = Field(
        Missed.FIRE_ONCE, strict=False, description=f"one of {', '.join(Missed)}; only a schedule has it"
    )
    name: Name | None = Field(None, description=NAME_RULE)
    on_conflict: OnConflict = Field(
        OnConflict.REFUSE, strict=False, description=f"one of {', '.join(OnConflict)}; only a named timer has it"
    )
    tenant_id: Name = Field("default", description=NAME_RULE)
    timer_type: TimerType = Field(TimerType.USER, strict=False, description=f"one of {', '.join(TimerType)}, as text")
    target: Name = Field("log", description="log, a handler that an app has declared, or webhook:NAME")
    target_element_id: Name | None = Field(None, description=NAME_RULE)
    process_instance_key: Key | None = Field(None, description=KEY_RULE)
    element_instance_key: Key | None = Field(None, description=KEY_RULE)
    payload: Annotated[str | None, BeforeValidator(_payload, json_schema_input_type=object)] = Field(
        None, description="a JSON value; null is no payload"
    )

    @model_validator(mode="before")
    @classmethod
    def _is_in_the_zone_of_its_text(cls, fields: object) -> object:
        if not isinstance(fields, dict) or fields.get("zone", "UTC") != "UTC":
            return fields
        for text in (fields.get("due_date"), fields.get("schedule")):
            if isinstance(text, str) and "[" in text:
                # Skip this check if the field itself is refused, because that refusal is more precise.
                with suppress(InvalidTimer):
                    return fields | {"zone": agreed_zone(text, UTC_ZONE).key}
        return fields

    @model_validator(mode="after")
    def _is_whole(self, info: ValidationInfo) -> Self:
        def called(field: str) -> str:
            return _Reading.of(info).called.get(field, field)

        if (self.due_date is None) + (self.delay is None) + (self.schedule is None) != len(MOMENTS) - 1:
            fields = f"{called('due_date')}, {called('delay')} and {called('schedule')}"
            number = sum(getattr(self, field) is not None for field in MOMENTS)
            raise InvalidTimer.of(NEEDS_ONE_MOMENT, fields=fields, number=number)
        if self.schedule is None and "missed" in self.model_fields_set:
            missed = f"{called('missed')} {shortened(self.missed)}"
            raise InvalidTimer(f"{missed} needs a schedule: leave it out", code=invalid("missed"))
        if self.name is None and self.on_conflict is not OnConflict.REFUSE:
            on_conflict = f"{called('on_conflict')} {shortened(self.on_conflict)}"
            raise InvalidTimer(f"{on_conflict} needs a name: give the timer a name", code=invalid("on_conflict"))
        return self

    @classmethod
    def from_fields(
        cls, fields: Mapping[str, object], *, called: Mapping[str, str] = NO_OTHER_NAMES, was_read: bool = False
    ) -> Self:
        """Check a request with fields of plain values and any JSON value as the payload.

        `called` maps field names to the names that the user knows; refusals use these names. `was_read`: `read_json`
        has read the payload, so the payload is not read again.

        errors:  InvalidTimer  the message names the first invalid field, its value, the rule and the remedy
        """
        try:
            return cls.model_validate(fields, context=_Reading(called, was_read))
        except ValidationError as error:
            raise refusal_of(error, cls, called=called) from None

    @classmethod
    def from_line(cls, line: str | bytes, **defaults: object) -> Self:
        """Check one line of newline-delimited JSON, at most 131,072 bytes long; `defaults` fill missing fields.

        errors:  InvalidTimer  as `from_fields`, or the line is not one JSON object
        """
        return cls.from_fields(defaults | read_line(line), was_read=True)


def read_line(line: str | bytes) -> dict[str, object]:
    """Parse one line of newline-delimited JSON, at most 131,072 bytes long, as an object.

    errors:  InvalidTimer  the line is not one JSON object
    """
    try:
        fields = read_json(line, bytes_max=LINE_BYTES_MAX, around=1)
    except InvalidTimer as refusal:
        raise InvalidTimer(f"line {refusal}") from None
    if not isinstance(fields, dict):
        raise InvalidTimer(f'line {shortened(line)} is not a JSON object; write one such as {{"delay":"PT15M"}}')
    return fields
