"""What is answered about the log, and to groups that read it."""

from datetime import datetime
from typing import Any, Self

from pydantic import Field

from gateway.answers.answer import DUE, KEY, Answer, value_of
from sql.log.groups import Group
from sql.log.records import LogRecord


class RecordAnswer(Answer):
    """One event of a timer or of its delivery, as it stands in the log."""

    position: int = Field(examples=[812])
    recorded_at: datetime
    intent: str = Field(examples=["TRIGGERED"])
    timer_key: int = KEY
    tenant_id: str
    name: str | None
    due_date: datetime = DUE
    occurrence: int
    schedule: str | None
    target: str
    payload: Any
    detail: Any

    @classmethod
    def of(cls, record: LogRecord) -> Self:
        """Make it of a record."""
        fields = {name: getattr(record, name) for name in cls.model_fields}
        return cls(**fields | {name: value_of(fields[name]) for name in ("payload", "detail")})


class RecordsAnswer(Answer):
    """The last records of a timer, the newest first."""

    records: list[RecordAnswer]


class LogAnswer(Answer):
    """Some records of the log, in its order."""

    records: list[RecordAnswer]
    next: int = Field(description="the next request's `after`", examples=[812])


class GroupAnswer(Answer):
    """A group that reads the log, and how far behind it is."""

    group: str = Field(examples=["billing"])
    partitions: int
    position: int
    lag_records: int
    lag_s: float = Field(description="the age of the oldest record that is not done")
    idle_s: float | None
    failures: int
    set_aside: int
    error: str | None

    @classmethod
    def of(cls, group: Group) -> Self:
        """Make it of what was found."""
        fields = {name: getattr(group, name) for name in cls.model_fields if name != "group"}
        return cls(group=group.group_name, **fields)


class GroupsAnswer(Answer):
    """The groups that read the log."""

    groups: list[GroupAnswer]


class LeaseAnswer(Answer):
    """Some records to work on, and the token by which they are acknowledged."""

    records: list[RecordAnswer]
    token: str
    partition: int
    lease_s: float


class PlaceAnswer(Answer):
    """Where a group is; the token of the lease if it was kept."""

    position: int
    token: str | None
