"""What is said of a timer that was not written."""

from shardclock_server.sql.clients.outcomes import KeyTaken, Locked, NameTaken, Refused
from shardclock_server.sql.session import StatementRefused
from shardclock_server.timers.model import NewTimer
from shardclock_server.timers.refusal import shortened

# Rules that the table checks and the model does not, in the model's words.
RULES = {
    "due_date_is_in_years_1_to_9999": "its due date is out of range; a timer is due in the years 1 to 9999",
    "payload_is_at_most_64_kib": "its payload is too large; the limit is 65,536 bytes (64 KiB)",
}
OUT_OF_RANGE = "22008"


def refused(timer: NewTimer, error: StatementRefused) -> Refused:
    """Say in the model's words why Postgres refuses a timer."""
    when = timer.due_date or timer.delay or timer.schedule
    rule = RULES["due_date_is_in_years_1_to_9999"] if error.sqlstate == OUT_OF_RANGE else RULES.get(error.constraint)
    return Refused(f"a timer for {shortened(str(when))} is refused: {rule or error}")


def locked(timer: NewTimer) -> Locked:
    """Say that another transaction holds a timer's name."""
    return Locked(
        f"name {shortened(timer.name)} of tenant {shortened(timer.tenant_id)} is held by a transaction that has not"
        " ended; nothing was scheduled, so send it again"
    )


def key_taken(timer_key: int) -> KeyTaken:
    """Say that a key is another timer's."""
    return KeyTaken(
        f"its key {timer_key} is another timer's: the sequence of keys has gone back, by a crash or a restore; "
        "nothing was scheduled under it, so schedule it again"
    )


def name_taken(timer: NewTimer) -> NameTaken:
    """Say that a pending timer has a timer's name."""
    return NameTaken(
        f"name {shortened(timer.name)} is taken by a pending timer of tenant {shortened(timer.tenant_id)}; "
        "choose another name, or say by on_conflict to ignore this one or to replace that one"
    )
