"""The answers about bulk operations."""

from datetime import datetime
from typing import Any

from pydantic import Field

from shardclock.api.answers import Answer


class Operation(Answer):
    """A change of many rows, with its progress.

    shape:   the sum of `changed` and `unchanged` reaches `matched`, unless the operation ends earlier
    """

    operation_id: int
    verb: str = Field(description="the verb, in the words of the command line")
    state: str = Field(
        description="RUNNING, DONE, CANCELED or FAILED; INTERRUPTED: no process has continued the operation for 30 s"
    )
    tenant_id: str | None = Field(description="the tenant of the rows; null: all tenants")
    filter: dict[str, Any] = Field(description="the given fields of the filter")
    parameters: dict[str, Any] = Field(description="the parameters of the verb, such as a shift or a rate")
    reason: str | None = Field(
        description="the reason that the caller gave; also null if an operator began the operation"
    )
    matched: int = Field(description="the number of found rows")
    expected: int | None = Field(description="the count of the dry run; null if there was no dry run")
    left_out: int = Field(description="the number of matching rows that the verb can't change")
    changed: int = Field(description="the number of changed rows")
    unchanged: int = Field(description="the number of found rows that the verb could not change")
    unchanged_reasons: dict[str, int] = Field(
        description="the number of unchanged rows by reason: the code of a refusal, or nothing_to_change"
    )
    begun_at: datetime
    ended_at: datetime | None = Field(description="the end of the operation; null: the operation has not ended")
    interface: str = Field(description="api, cli or console")
    by_operator: bool = Field(description="whether an operator began the operation: a key for all tenants, or the CLI")
    key_prefix: str | None = Field(
        description="the prefix of the API key; null without an API key, or if a tenant reads an operator's operation"
    )
    key_name: str | None
    role: str | None = Field(description="the database role of the login; null for a tenant")
    error: str | None = Field(
        description="the refusal that ended the operation; before its end, the last failure, which is retried"
    )


class OperationsPage(Answer):
    """A page of operations, the newest first."""

    operations: tuple[Operation, ...]
    next: str | None = None
