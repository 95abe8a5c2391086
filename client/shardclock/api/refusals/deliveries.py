"""The refusals of deliveries and dead letters."""

from shardclock.api.codes import CONFLICT, NOT_FOUND, TOO_LATE

UNKNOWN_DELIVERY = NOT_FOUND.specific("unknown_delivery", "timer {timer_key} has no delivery")
DELIVERY_CLAIMED = TOO_LATE.specific(
    "delivery_claimed", "a worker or a program has claimed the delivery of timer {timer_key}; nothing was changed"
)
DELIVERY_DEAD = TOO_LATE.specific(
    "delivery_dead",
    "the delivery of timer {timer_key} was given up already: redrive or discard its dead letter"
    " (shardclock dead-letters)",
)
DELIVERY_ENDED = TOO_LATE.specific("delivery_ended", "too late: the delivery of timer {timer_key} is {state} already")
DELIVERY_OF_JOB = CONFLICT.specific(
    "delivery_of_job",
    "the delivery of timer {timer_key} is a start of job {job!r}: disable the job (shardclock jobs disable)",
)
DELIVERY_OF_INSTANCE = CONFLICT.specific(
    "delivery_of_instance",
    "the delivery of timer {timer_key} belongs to instance {instance_key}: cancel the instance (shardclock processes"
    " cancel), or move its token",
)
UNKNOWN_DEAD_LETTER = NOT_FOUND.specific(
    "unknown_dead_letter", "there is no dead letter {timer_key}: list the dead letters (shardclock dead-letters)"
)
DEAD_LETTER_AWAITED = CONFLICT.specific(
    "dead_letter_awaited",
    "dead letter {timer_key} is a signal that an instance waits for: redrive it (shardclock dead-letters redrive"
    " {timer_key}), or cancel the instance (shardclock processes cancel)",
)
NOT_REDRIVEN = CONFLICT.specific("not_redriven", "{which} not redriven: {why}")
DELIVERY_IS_DEAD_LETTER = NOT_FOUND.specific(
    "delivery_is_dead_letter", "the delivery of timer {timer_key} is a dead letter; /v1/dead-letters lists dead letters"
)
NO_PENDING_DELIVERY = NOT_FOUND.specific(
    "no_pending_delivery", "timer {timer_key} has no pending delivery: it has ended, or never was; the log has its end"
)
