"""The response models of the log and of consumer groups."""

from typing import Self

from pydantic import Field

from shardclock.api import answers
from shardclock.api.answers import Answer
from shardclock.log import LogRecord
from shardclock_server.gateway.answers.answer import examples, value_of
from shardclock_server.sql.log.groups import Group

LEASE_TOKEN = "WzAsIDEsIDgwMCwgMCwgODEyLCA3XQ=="  # noqa: S105 - an example


class RecordAnswer(
    answers.Record,
    json_schema_extra=examples(position=812, intent="TRIGGERED", occurrence=1, target="log", detail=None),
):
    """One record of the log: an event of a timer or of its delivery."""

    @classmethod
    def of(cls, record: LogRecord) -> Self:
        """Create the response model from a record of the log."""
        fields = {name: getattr(record, name) for name in cls.model_fields}
        return cls(**fields | {"payload": value_of(record.payload)})


class RecordsAnswer(answers.RecordsPage):
    """The last records of a timer, the newest first."""

    records: tuple[RecordAnswer, ...]


class LogAnswer(answers.LogRecordsPage, json_schema_extra=examples(next=812)):
    """A page of the log, in the order of the positions."""

    records: tuple[RecordAnswer, ...]


class GroupAnswer(Answer):
    """A group that reads the log, and its lag."""

    group: str = Field(examples=["billing"])
    partitions: int = Field(examples=[1])
    position: int = Field(examples=[812], description="the position up to which the group has processed all records")
    lag_records: int = Field(examples=[3])
    lag_s: float = Field(examples=[0.2], description="the age of the oldest unprocessed record")
    idle_s: float | None = Field(examples=[0.1])
    failures: int = Field(examples=[0])
    set_aside: int = Field(examples=[0])
    error: str | None

    @classmethod
    def of(cls, group: Group) -> Self:
        """Create the response model from a stored group."""
        fields = {name: getattr(group, name) for name in cls.model_fields if name != "group"}
        return cls(group=group.group_name, **fields)


class GroupsAnswer(Answer):
    """The groups that read the log."""

    groups: list[GroupAnswer]


class LeaseAnswer(answers.LeasePage, json_schema_extra=examples(token=LEASE_TOKEN, partition=0, lease_s=30.0)):
    """The records that the caller has leased, and the lease token with which it acknowledges them."""

    records: tuple[RecordAnswer, ...]
    partition: int
    lease_s: float


class PositionAnswer(answers.PositionPage, json_schema_extra=examples(position=812)):
    """The position of a group, and its lease token if the lease continues."""
