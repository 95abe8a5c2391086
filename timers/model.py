"""Say what a user may ask for, and what a shard keeps in memory of a timer it has claimed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal, Self, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    StringConstraints,
    ValidationError,
    model_validator,
)

from timers.duration import Duration, parse_duration
from timers.moment import parse_due_date
from timers.payload import payload_of, read_json
from timers.refusal import InvalidTimer, refusal_of, shortened
from timers.schedule import canonical_schedule

SLOTS = 840
LINE_BYTES_MAX = 131_072
NAME_CHARS_MAX = 200
BIGINT_MAX = 9_223_372_036_854_775_807

Target = Literal["log"]
TARGETS: tuple[str, ...] = get_args(Target)


def slot_of(timer_key: int) -> int:
    """Name the slot a timer lies in, as the table's generated column does."""
    return timer_key % SLOTS


class TimerType(StrEnum):
    """Name what a timer stands for in a process, or that a user set it."""

    BOUNDARY = "BOUNDARY"
    INTERMEDIATE = "INTERMEDIATE"
    START_EVENT = "START_EVENT"
    USER = "USER"


@dataclass(frozen=True, slots=True)
class ClaimedTimer:
    """Hold what a shard needs to fire a timer; `schedule` and `anchor` are both set, or both None."""

    timer_key: int
    due_date: datetime
    schedule: str | None
    anchor: datetime | None
    occurrence: int


def _text_read_by(parse: Callable[[str], object]) -> PlainValidator:
    def read(value: object) -> object:
        if value is None:
            return None
        if not isinstance(value, str):
            raise ValueError("not a text")  # noqa: TRY004 - pydantic reports no TypeError
        return parse(value)

    return PlainValidator(read, json_schema_input_type=str | None)


def _payload(value: object) -> str | None:
    return None if value is None else payload_of(value)


Name = Annotated[str, StringConstraints(min_length=1, max_length=NAME_CHARS_MAX, pattern=r"^\P{Cc}+$")]
Key = Annotated[int, Field(ge=1, le=BIGINT_MAX)]

NAME_RULE = f"1 to {NAME_CHARS_MAX} characters of text, none of them a control character"
KEY_RULE = f"a whole number from 1 to {BIGINT_MAX}"


class NewTimer(BaseModel):
    """Hold what a user asks for: exactly one of due date, delay and schedule, and what travels with it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    due_date: Annotated[datetime | None, _text_read_by(parse_due_date)] = Field(
        None, description="an ISO 8601 date-time with an offset, as text such as 2026-01-31T08:00:00Z"
    )
    delay: Annotated[Duration | None, _text_read_by(parse_duration)] = Field(
        None, description="an ISO 8601 duration, as text such as PT15M"
    )
    schedule: Annotated[str | None, _text_read_by(canonical_schedule)] = Field(
        None, description="an ISO 8601 repeat of fixed length, as text such as R/PT1H"
    )
    name: Name | None = Field(None, description=NAME_RULE)
    tenant_id: Name = Field("default", description=NAME_RULE)
    timer_type: TimerType = Field(TimerType.USER, strict=False, description=f"one of {', '.join(TimerType)}, as text")
    target: Target = Field("log", description=f"a known target ({', '.join(TARGETS)})")
    target_element_id: Name | None = Field(None, description=NAME_RULE)
    process_instance_key: Key | None = Field(None, description=KEY_RULE)
    element_instance_key: Key | None = Field(None, description=KEY_RULE)
    zone: Literal["UTC"] = Field(
        "UTC", description="UTC, the only zone understood yet; elsewhere, give the due date with its offset"
    )
    payload: Annotated[str | None, BeforeValidator(_payload, json_schema_input_type=object)] = Field(
        None, description="a JSON value; null is no payload"
    )

    @model_validator(mode="after")
    def _says_when_once(self) -> Self:
        given = [field for field in ("due_date", "delay", "schedule") if getattr(self, field) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            raise InvalidTimer(f"a timer needs exactly one of due_date, delay and schedule; this one has {found}")
        return self

    @classmethod
    def from_fields(cls, fields: Mapping[str, object]) -> Self:
        """Check what a user asks for, given as plain values, the payload as any JSON value.

        errors:  InvalidTimer  names the first field at fault, its value, the rule and the way out
        """
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            raise refusal_of(error, cls) from None

    @classmethod
    def from_line(cls, line: str | bytes) -> Self:
        """Check one line of newline-delimited JSON, at most 131,072 bytes long.

        errors:  InvalidTimer  as `from_fields`, or the line is not one JSON object
        """
        try:
            fields = read_json(line, bytes_max=LINE_BYTES_MAX)
        except InvalidTimer as refusal:
            raise InvalidTimer(f"line {refusal}") from None
        if not isinstance(fields, dict):
            raise InvalidTimer(f'line {shortened(line)} is not a JSON object; write one such as {{"delay":"PT15M"}}')
        return cls.from_fields(fields)
