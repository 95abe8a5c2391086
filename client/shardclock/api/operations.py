"""The answers about bulk operations."""

from datetime import datetime
from typing import Any

from pydantic import Field

from shardclock.api.answers import Answer


class Operation(Answer):
    """A change of many rows, with its progress.

    shape:   `changed` and `unchanged` together reach `matched`, unless the operation ends before
    """

    operation_id: int
    verb: str = Field(description="the verb, in the words of the command line")
    state: str = Field(
        description="RUNNING, DONE, CANCELED or FAILED; INTERRUPTED: it runs, and no process has continued it for 30 s"
    )
    tenant_id: str | None = Field(description="the tenant of the rows; null: all tenants")
    filter: dict[str, Any] = Field(description="the given fields of the filter")
    parameters: dict[str, Any] = Field(description="the parameters of the verb, such as a shift or a rate")
    reason: str | None = Field(description="the reason of its caller; null, too, if an operator began it")
    matched: int = Field(description="the number of found rows")
    expected: int | None = Field(description="the count of the dry run; null if there was no dry run")
    left_out: int = Field(description="the number of matching rows that the verb can't change")
    changed: int = Field(description="the number of changed rows")
    unchanged: int = Field(description="the number of found rows that had ended or changed meanwhile")
    begun_at: datetime
    ended_at: datetime | None = Field(description="the time of its end; null: it has not ended")
    interface: str = Field(description="api, cli or console")
    by_operator: bool = Field(description="whether a key for all tenants, or the command line, began it")
    key_prefix: str | None = Field(
        description="the prefix of the API key; null, too, if a tenant asks for an operator's"
    )
    key_name: str | None
    role: str | None = Field(description="the database role of the login; null for a tenant")
    error: str | None = Field(description="the refusal that ended it, or its last failure")


class OperationsPage(Answer):
    """A page of operations, the newest first."""

    operations: tuple[Operation, ...]
    next: str | None = None
