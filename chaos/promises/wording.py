"""Describe a row, record, call or instance in one line, for messages and searches."""

from __future__ import annotations

from datetime import UTC, datetime

from chaos.history.calls import Call
from chaos.history.changes import Recorded, TimerWritten
from chaos.process_index import InstanceHistory, SignalHistory


def clock(moment: datetime | float) -> str:
    """Format the time of day of a moment, with microseconds."""
    at = datetime.fromtimestamp(moment, UTC) if isinstance(moment, float) else moment.astimezone(UTC)
    return f"{at:%H:%M:%S.%f}"


def row_of(row: TimerWritten) -> str:
    """Name a row by key, tenant, name and occurrence."""
    return _timer(row.timer_key, row.tenant_id, row.name, row.occurrence)


def record_of(record: Recorded) -> str:
    """Name a record by its timer, with its intent, holder and moments."""
    by = "" if record.holder is None else f" by {record.holder:x}"
    timer = _timer(record.timer_key, record.tenant_id, record.name, record.occurrence)
    return f"{timer}: {record.intent}{by} at {clock(record.recorded_at)}, due {clock(record.due_date)}"


def call_of(call: Call) -> str:
    """Name a call by its number, with its verb, its object and its answer."""
    if call.process is not None:
        about = "" if call.instance_key is None else f" of instance {call.instance_key}"
        asked = f"{call.verb} {call.process} {call.tenant_id}/{call.name}{about}"
        return f"call {call.number} at {clock(call.began_at)}: {asked}, {call.answer or call.outcome}"
    which = f"timer {call.timer_key}" if call.name is None else f"{call.tenant_id}/{call.name}"
    about = f"{len(call.timers)} timers" if call.verb == "schedule" else which
    return f"call {call.number} at {clock(call.began_at)}: {call.verb} {about}, {call.answer or call.outcome}"


def instance_of(instance: InstanceHistory) -> str:
    """Name an instance by its key, tenant and process."""
    if not instance.rows:
        return f"instance {instance.instance_key}"
    return f"instance {instance.instance_key} of {instance.row.tenant_id}/{instance.row.process_id}"


def signal_of(signal: SignalHistory) -> str:
    """Name a signal by its key, its kind, and its instance."""
    return f"signal {signal.signal_key} ({signal.kind}) to instance {signal.instance_key}"


def _timer(timer_key: int, tenant_id: str, name: str | None, occurrence: int) -> str:
    called = "" if name is None else f"/{name} #{occurrence}"
    return f"timer {timer_key} of {tenant_id}{called}"
