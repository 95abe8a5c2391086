"""What became of the delivery to a timer's target, after the timer has fired."""

from shardclock.log import LogRecord
from shardclock_server.service.deliveries import in_hand_of
from shardclock_server.service.job_runs import TARGET_OF_JOB
from shardclock_server.service.story import Story, by_whom, detail_of, shown
from shardclock_server.service.words import counted

ENDS_OF_DELIVERY = {
    "DELIVERED": "delivered to",
    "DISCARDED": "discarded by",
    "DEAD": "given up: a dead letter of",
    "STALE": "too late for",
}


def delivered(story: Story, fired: LogRecord) -> str:
    """Say what became of the delivery to the timer's target, if it has one."""
    if not fired.has_target:
        return ""
    told = (*ENDS_OF_DELIVERY, "REDRIVEN")
    last = next((it for it in reversed(story.records) if it.timer_key == fired.timer_key and it.intent in told), None)
    # A dead letter that was redriven is a delivery again, and its end lies behind it.
    if last is None or last.intent == "REDRIVEN":
        return f"; {_under_way(story, fired)}"
    detail, at = detail_of(last), shown(last.recorded_at)
    if detail.get("by"):
        return f"; its delivery to {fired.target} was discarded at {at}{by_whom(detail)}"
    attempt = f", at attempt {detail['attempt']}" if "attempt" in detail else ""
    # A job's start that is given up leaves no dead letter: the next start comes by itself.
    is_job = last.intent == "DEAD" and fired.target.startswith(TARGET_OF_JOB)
    how = "given up:" if is_job else ENDS_OF_DELIVERY[last.intent]
    return f"; {how} {fired.target} at {at}{attempt}{_because(detail)}"


def _under_way(story: Story, fired: LogRecord) -> str:
    """Say where a delivery is of which the records tell no end."""
    delivery = story.delivery
    if delivery is None or delivery.timer_key != fired.timer_key:
        if not fired.is_delivered:
            return "its instance has taken it"
        return f"what became of its delivery to {fired.target} is not known here"
    failed = f" after {counted(delivery.failed_attempts, 'failed attempt')}" if delivery.failed_attempts else ""
    if delivery.state == "DEAD":
        return f"{ENDS_OF_DELIVERY['DEAD']} {fired.target}{failed}: {delivery.reason}"
    if delivery.state == "IN_HAND":
        return f"{in_hand_of(delivery)} has its delivery to {fired.target} in hand"
    at = f", the next attempt is due at {shown(delivery.next_attempt_at)}" if delivery.next_attempt_at else ""
    return f"its delivery to {fired.target} waits{failed}{at}"


def _because(detail: dict[str, object]) -> str:
    return f": {detail['reason']}" if detail.get("reason") else ""
