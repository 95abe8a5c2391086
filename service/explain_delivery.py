"""Explain how the delivery to a fired timer's target ended."""

from datetime import timedelta

from shardclock.log import LogRecord
from shardclock_server.service.deliveries import holder_name
from shardclock_server.service.timeline import Timeline, author_of, detail_of, show_moment
from shardclock_server.service.unserved import line_of
from shardclock_server.service.wording import counted
from shardclock_server.sql.deliveries.find import DeliveryState
from shardclock_server.sql.jobs.declare import TARGET_OF_JOB

LATE = timedelta(seconds=1)  # a due delivery waits less than this time if a worker is free
ENDS_OF_DELIVERY = {
    "DELIVERED": "delivered to",
    "DISCARDED": "discarded by",
    "DEAD": "given up: a dead letter of",
    "STALE": "too late for",
}


def delivered(timeline: Timeline, fired: LogRecord) -> str:
    """Return the last part of the sentence: the delivery's outcome or present state; '' if the timer has no target."""
    if not fired.has_target:
        return ""
    told = (*ENDS_OF_DELIVERY, "REDRIVEN")
    last = next(
        (it for it in reversed(timeline.records) if it.timer_key == fired.timer_key and it.intent in told), None
    )
    # A redrive turns a dead letter into a delivery again, so an end before the redrive is ignored.
    if last is None or last.intent == "REDRIVEN":
        return f"; {_under_way(timeline, fired)}"
    detail, at = detail_of(last), show_moment(last.recorded_at)
    if detail.get("by"):
        return f"; the delivery to {fired.target} was discarded at {at}{author_of(timeline, detail)}"
    attempt = f", at attempt {detail['attempt']}" if "attempt" in detail else ""
    # After the last failed attempt, a start of a job does not become a dead letter, because the job has a next start.
    is_job = last.intent == "DEAD" and fired.target.startswith(TARGET_OF_JOB)
    how = "given up:" if is_job else ENDS_OF_DELIVERY[last.intent]
    return f"; {how} {fired.target} at {at}{attempt}{_because(detail)}"


def _under_way(timeline: Timeline, fired: LogRecord) -> str:
    """Describe a delivery that has no recorded end."""
    delivery = timeline.delivery
    if delivery is None or delivery.timer_key != fired.timer_key:
        if not fired.is_delivered:
            return "the instance has received it"
        return f"the log does not have the outcome of the delivery to {fired.target}"
    failed = f" after {counted(delivery.failed_attempts, 'failed attempt')}" if delivery.failed_attempts else ""
    if delivery.state == "DEAD":
        return f"{ENDS_OF_DELIVERY['DEAD']} {fired.target}{failed}: {delivery.reason}"
    if delivery.state == "IN_HAND":
        return f"{holder_name(delivery)} has claimed the delivery to {fired.target}"
    unserved = f": {line_of(timeline.unserved)}" if timeline.unserved else ""
    # After a redrive, the delivery still has its old failures, but its number of failed attempts is 0.
    last = f"; the last attempt failed: {delivery.last_error}" if delivery.failed_attempts else ""
    return f"the delivery to {fired.target} waits{failed}{_next_attempt(timeline, delivery)}{unserved}{last}"


def _next_attempt(timeline: Timeline, delivery: DeliveryState) -> str:
    """Describe when the next attempt is due, and the reason of a late attempt."""
    if delivery.next_attempt_at is None:
        return ""
    due = show_moment(delivery.next_attempt_at)
    if timeline.hold is not None and timeline.hold.of_all:
        return f", the next attempt is due at {due}; a hold delays it ({timeline.hold.why})"
    if delivery.next_attempt_at > timeline.now - LATE or timeline.unserved:
        return f", the next attempt is due at {due}"
    return (
        f", the next attempt was due at {due}; it waits for a free worker, or for the end of a pause in which the"
        " workers don't call a target that fails"
    )


def _because(detail: dict[str, object]) -> str:
    return f": {detail['reason']}" if detail.get("reason") else ""
