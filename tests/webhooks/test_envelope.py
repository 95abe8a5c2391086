"""Test the body of a webhook: it contains the payload exactly as it is stored."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from shardclock_server.webhooks.envelope import write_body

NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)


def test_a_body_is_compact_and_in_utf_8() -> None:
    body = write_body(
        NOON.astimezone(timezone(timedelta(hours=2))), {"timer_key": 7, "name": "café", "zone": None}, '{"a":1}'
    )
    assert (
        body
        == (
            '{"type":"timer.fired","timestamp":"2026-03-29T12:00:00.000000Z",'
            '"data":{"timer_key":7,"name":"café","zone":null,"payload":{"a":1}}}'
        ).encode()
    )


def test_a_payload_keeps_numbers_that_python_would_round() -> None:
    body = write_body(NOON, {}, '{"n": 12345678901234567890.123456789}')
    assert body.endswith(b'"data":{"payload":{"n": 12345678901234567890.123456789}}}')


@given(st.dictionaries(st.text(), st.none() | st.integers() | st.text()), st.none() | st.integers().map(json.dumps))
def test_any_body_is_json(fields: dict[str, str | int | None], payload: str | None) -> None:
    fields.pop("payload", None)
    body = write_body(NOON, fields, payload)
    assert json.loads(body)["data"] == {**fields, "payload": json.loads(payload or "null")}
    compact = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))[1:-1].encode()
    assert compact in body, "a different spelling of the same JSON would change the bytes between attempts"
