"""The response models of bulk operations."""

from typing import Self

from shardclock.api import operations
from shardclock.api.answers import Answer
from shardclock_server.gateway.answers.answer import MOMENT_TEXT, NEXT, examples
from shardclock_server.service.operations import describe
from shardclock_server.sql.operations.operations import Operation


class OperationAnswer(
    operations.Operation,
    json_schema_extra=examples(
        operation_id=7,
        verb="cancel",
        state="RUNNING",
        filter={"name_prefix": "order-"},
        parameters={},
        reason="the shop is closed",
        matched=12_000,
        expected=12_000,
        changed=3_998,
        unchanged=2,
        unchanged_reasons={"timer_ended": 2},
        begun_at=MOMENT_TEXT,
        ended_at=None,
        interface="console",
        by_operator=False,
        key_prefix="k7v2m4qa",
        key_name="night",
        role=None,
        error=None,
    ),
):
    """A change of many rows, with its progress."""

    @classmethod
    def of(cls, operation: Operation, *, is_operator: bool) -> Self:
        """Convert a stored operation; a tenant sees neither an operator's name nor the reason."""
        shown = describe(operation)
        if not is_operator:
            shown["role"] = None
        if operation.by_operator and not is_operator:
            shown |= {"key_prefix": None, "key_name": None, "reason": None}
        return cls(**shown)


class OperationsAnswer(Answer):
    """A page of operations, the newest first."""

    operations: list[OperationAnswer]
    next: str | None = NEXT
