"""Write the body of a webhook: compact JSON from only stored values, so that each attempt sends the same bytes."""

from collections.abc import Mapping
from datetime import UTC, datetime

from pydantic_core import to_json

TYPE = "timer.fired"


def write_body(fired_at: datetime, fields: Mapping[str, str | int | None], payload: str | None) -> bytes:
    """Write the envelope of a firing.

    shape:   {"type":"timer.fired","timestamp":…,"data":{…fields, in their order, "payload":…}}
    units:   the payload is JSON text, copied unchanged; None becomes null
    source:  Standard Webhooks 1.0, "Payload structure"
    """
    head = {
        "type": TYPE,
        "timestamp": fired_at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
    }
    opened, inner = to_json(head)[:-1], to_json(dict(fields))[:-1]
    comma = b"," if fields else b""
    return b'%b,"data":%b%b"payload":%b}}' % (opened, inner, comma, (payload or "null").encode())
