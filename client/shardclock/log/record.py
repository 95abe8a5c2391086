"""One record of the command log, as a consumer gets it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import fields as fields_of
from datetime import datetime
from typing import Any, NamedTuple

from shardclock.jsonb import stored_json

SIGNAL = "process:instance"  # The target of timers of process instances.
UNDELIVERED = ("log", SIGNAL)  # For these targets, the log has no record of a delivery's end.


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One event of a timer or its delivery; the comment on the column in Postgres lists the values of `intent`.

    shape:   `payload` is the original JSON text, and `detail` is an object, as in all clients
    """

    position: int
    recorded_at: datetime
    intent: str
    timer_key: int
    tenant_id: str
    name: str | None
    timer_type: str
    process_instance_key: int | None
    element_instance_key: int | None
    target_element_id: str | None
    due_date: datetime
    created_at: datetime
    schedule: str | None
    occurrence: int
    target: str
    payload: str | None
    holder: int | None
    detail: dict[str, Any] | None

    @property
    def count(self) -> int:
        """The number of occurrences in the record: a SKIPPED record may count several occurrences."""
        return int(self.detail["count"]) if self.intent == "SKIPPED" and self.detail else 1

    @property
    def has_target(self) -> bool:
        """Whether a delivery follows the timer's firing."""
        return self.target != "log"

    @property
    def is_delivered(self) -> bool:
        """Whether a record of the delivery's end follows; no record follows for a timer of a process instance."""
        return self.target not in UNDELIVERED

    @property
    def late_since(self) -> datetime:
        """The moment from which the lag is counted: the timer's due date, or a client's later request.

        source:  shardclock.late_since
        """
        moments = [self.due_date]
        if self.occurrence == 1:
            moments.append(self.created_at)
        if self.intent == "TRIGGERED" and self.detail:
            moments.append(datetime.fromisoformat(self.detail["changed_at"]))
        return max(moments)


NAMES = [field.name for field in fields_of(LogRecord)]
MOMENTS = [NAMES.index(name) for name in ("recorded_at", "due_date", "created_at")]
DETAIL = NAMES.index("detail")


class LogPage(NamedTuple):
    """The records of one read; a page that is not full contains all records up to the horizon."""

    records: list[LogRecord]
    is_full: bool


def page_of(answer: str | None) -> LogPage:
    """Parse the answer of the statement that reads the log.

    source:  client/shardclock/sql/statements/read_log.sql
    """
    assert answer is not None, "the statement gives one row"
    page = json.loads(answer)
    return LogPage([_record_of(columns) for columns in page["records"]], page["is_full"])


def _record_of(columns: Sequence[Any]) -> LogRecord:
    fields = list(columns)
    for number in MOMENTS:
        fields[number] = datetime.fromisoformat(f"{fields[number]}+00:00")
    fields[DETAIL] = None if fields[DETAIL] is None else stored_json(fields[DETAIL])
    return LogRecord(*fields)
