"""The refusals of bulk operations."""

from shardclock.api.codes import NOT_FOUND, TOO_LATE

UNKNOWN_OPERATION = NOT_FOUND.specific(
    "unknown_operation", "there is no operation {operation_id}: list the operations (shardclock operations)"
)
OPERATION_ENDED = TOO_LATE.specific(
    "operation_ended", "too late: operation {operation_id} is {state} already; nothing was changed"
)
