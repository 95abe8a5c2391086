"""One record of the command log, as a consumer gets it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import fields as fields_of
from datetime import datetime
from typing import Any, NamedTuple

from shardclock.jsonb import stored_json

SIGNAL = "process:instance"  # the target of the timers of a process's instances
UNDELIVERED = ("log", SIGNAL)  # the targets of which no record says that the delivery has ended


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One event of a timer or its delivery; `intent` says which, as the column's comment in Postgres lists them.

    shape:   `payload` is a JSON text as it was given, and `detail` an object, as in all clients
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
        """Say how many occurrences the record is about: a SKIPPED record may be about several."""
        return int(self.detail["count"]) if self.intent == "SKIPPED" and self.detail else 1

    @property
    def has_target(self) -> bool:
        """Say whether the timer's firing calls something, so that a delivery follows it."""
        return self.target != "log"

    @property
    def is_delivered(self) -> bool:
        """Say whether a record of the delivery's end follows: an instance of a process takes a timer without one."""
        return self.target not in UNDELIVERED

    @property
    def late_since(self) -> datetime:
        """Say from when on a firing was late: its due date, or the moment a client asked for it if that was later.

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
    """Records that one statement has read; if the page is not full, no other record follows up to the horizon."""

    records: list[LogRecord]
    is_full: bool


def page_of(answer: str | None) -> LogPage:
    """Read the page that a statement has answered.

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
