"""Test which parts of a request identify it, so that a newer release recognizes a repeated request."""

from __future__ import annotations

import hashlib
import json

from tests.support import ROOT
from tests.support.factories import value
from tests.support.gateways import Api

MODEL = (ROOT / "examples" / "order.bpmn").read_bytes()


async def test_only_the_sent_fields_of_a_body_identify_a_request(dsn: str, api: Api) -> None:
    await api.deploy(MODEL)
    path, body = "/v1/processes/order/start", {"variables": {"order": 42}}

    await api.post(path, body, Idempotency_Key="once")

    sent = "\n".join(["POST", path, json.dumps(body, sort_keys=True)])
    stored = await value(dsn, "select fingerprint from shardclock.idempotent_requests")
    assert stored == hashlib.sha256(sent.encode()).digest()
