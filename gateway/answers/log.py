"""What is answered about the log, and to groups that read it."""

from datetime import datetime
from typing import Any, Self

from pydantic import Field

from shardclock.log import LogRecord
from shardclock_server.gateway.answers.answer import DUE, KEY, MOMENT, NAME, PAYLOAD, TENANT, Answer, value_of
from shardclock_server.sql.log.groups import Group

LEASE_TOKEN = Field(examples=["WzAsIDEsIDgwMCwgMCwgODEyLCA3XQ=="])


class RecordAnswer(Answer):
    """One event of a timer or of its delivery, as it stands in the log."""

    position: int = Field(examples=[812])
    recorded_at: datetime = MOMENT
    intent: str = Field(examples=["TRIGGERED"])
    timer_key: int = KEY
    tenant_id: str = TENANT
    name: str | None = NAME
    due_date: datetime = DUE
    occurrence: int = Field(examples=[1])
    schedule: str | None
    target: str = Field(examples=["log"])
    payload: Any = PAYLOAD
    detail: dict[str, Any] | None = Field(
        examples=[None], description="what this intent adds, such as the reason of a cancel"
    )

    @classmethod
    def of(cls, record: LogRecord) -> Self:
        """Make it of a record."""
        fields = {name: getattr(record, name) for name in cls.model_fields}
        return cls(**fields | {"payload": value_of(record.payload)})


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
    partitions: int = Field(examples=[1])
    position: int = Field(examples=[812], description="up to which its work is done")
    lag_records: int = Field(examples=[3])
    lag_s: float = Field(examples=[0.2], description="the age of the oldest record that is not done")
    idle_s: float | None = Field(examples=[0.1])
    failures: int = Field(examples=[0])
    set_aside: int = Field(examples=[0])
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
    token: str = LEASE_TOKEN
    partition: int = Field(examples=[0])
    lease_s: float = Field(examples=[30.0])


class PlaceAnswer(Answer):
    """Where a group is; the token of the lease if it was kept."""

    position: int = Field(examples=[812])
    token: str | None
