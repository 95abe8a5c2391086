"""The refusals of timers and their targets."""

from shardclock.api.codes import CONFLICT, NOT_FOUND, OTHER_REQUEST, REFUSED, STALE, TOO_LATE, UNAVAILABLE

OPERATE = "or let an operator change the timer (shardclock operate)"

UNKNOWN_TIMER = NOT_FOUND.specific("unknown_timer", "there is no timer {which}, pending or ended")
TIMER_ENDED = TOO_LATE.specific("timer_ended", "too late: timer {which} is {state} already")
TIMER_PAUSED = TOO_LATE.specific("timer_paused", "timer {which} is paused: resume it first, then run it")
TIMER_UNPLANNED = CONFLICT.specific(
    "timer_unplanned",
    "timer {timer_key} has no date yet: a running cluster plans its schedule, unless it is paused; try again later",
)
TIMER_OF_JOB = CONFLICT.specific(
    "timer_of_job", f"timer {{timer_key}} starts job {{job!r}}: run or disable the job (shardclock jobs), {OPERATE}"
)
TIMER_OF_DEFINITION = CONFLICT.specific(
    "timer_of_definition",
    "timer {timer_key} starts instances of a process: delete its definition (shardclock processes delete), "
    f"{OPERATE}",
)
TIMER_OF_INSTANCE = CONFLICT.specific(
    "timer_of_instance",
    "timer {timer_key} belongs to instance {instance_key}: cancel the instance (shardclock processes cancel), move its"
    f" token, {OPERATE}",
)
TIMER_OF_CLIENT = CONFLICT.specific(
    "timer_of_client",
    "timer {timer_key} belongs to a client: change it by pause_timer, resume_timer or reschedule_timer",
)
RESERVED_NAME = REFUSED.specific(
    "reserved_name",
    "name {name!r} is reserved: names that begin with job:, process: or start: are for the timers of jobs and"
    " processes; choose another name",
)
RESERVED_TARGET = REFUSED.specific(
    "reserved_target",
    "target {target!r} is reserved for the timers of {owners}: {way_out}, or choose another target",
)
UNKNOWN_TARGET = REFUSED.specific("unknown_target", "target {target!r} is unknown: {known}")
TARGET_DISABLED = REFUSED.specific(
    "target_disabled", "target {target!r} was disabled at {at} ({why}): enable it (shardclock endpoints enable)"
)
TARGET_WITHDRAWN = REFUSED.specific(
    "target_withdrawn", "target {target!r} was withdrawn at {at}: start the cluster with the app that declares it"
)
NAME_LOCKED = UNAVAILABLE.specific(
    "name_locked",
    "name {name!r} of tenant {tenant_id!r} is locked by a transaction that has not ended; nothing was scheduled, so"
    " send it again",
)
TIMER_KEY_TAKEN = UNAVAILABLE.specific(
    "timer_key_taken",
    "timer_key {timer_key} belongs to another timer: a crash or a restore has set the sequence of keys back; nothing"
    " was scheduled, so schedule it again",
)
KEY_OF_ANOTHER_LINE = OTHER_REQUEST.specific(
    "key_of_another_line", "line {line} has the same idempotency key, and asks for another timer; use a new key"
)
ETAG_DIFFERS = STALE.specific(
    "etag_differs", "timer {timer_key} was changed since you read it: its ETag is {etag} now; read it again"
)
NEEDS_ONE_MOMENT = REFUSED.specific("needs_one_moment", "give exactly one of {fields}, not {number}")
NEEDS_ONE_TIMER = REFUSED.specific(
    "needs_one_timer", "say which timer: give either timer_key or name (with its tenant_id)"
)
NEEDS_ONE_NAME = REFUSED.specific("needs_one_name", "give only one of name, name_prefix and name_contains")
INVALID_ROW = REFUSED.specific("invalid_row", "{sentence}")
