"""The body of a webhook: compact JSON, made of what Postgres holds, so that each attempt sends the same bytes."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime

TYPE = "timer.fired"


def write_body(fired_at: datetime, fields: Mapping[str, str | int | None], payload: str | None) -> bytes:
    """Write the envelope of a firing.

    shape:   {"type":"timer.fired","timestamp":…,"data":{…fields, in their order, "payload":…}}
    units:   the payload is JSON text, and is copied as it is; None: null
    source:  Standard Webhooks 1.0, "Payload structure"
    """
    head = {
        "type": TYPE,
        "timestamp": fired_at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
    }
    opened, inner = _compact(head)[:-1], _compact(dict(fields))[:-1]
    comma = "," if fields else ""
    return f'{opened},"data":{inner}{comma}"payload":{payload or "null"}}}}}'.encode()


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
