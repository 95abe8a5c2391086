"""Prove that the receiver records each request, then performs the action in its payload."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from chaos import app
from chaos.behaviours import WEBHOOK, WEBHOOKS
from chaos.promises.calls import hash_of
from chaos.running import read_attempts
from chaos.webhook_receiver import NOT_OURS, Receiver
from shardclock_server.webhooks.signing import new_secret

SECRET = new_secret()
FIRST = {
    "accept": "204", "fail": "500", "refuse": "404", "late": "429", "busy": "503", "silence": "", "reset": "",
    "drip": "200", "flood": "200", "redirect": "302",
}  # fmt: skip
SILENT_S = 0.2


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[int]:
    """Start the receiver on a free port; it writes into the test's directory."""
    file = os.open(tmp_path / app.FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    server = await asyncio.start_server(Receiver(SECRET, file).serve, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
    os.close(file)


async def post(port: int, act: str, *, secret: str = SECRET) -> str:
    """Send a webhook on a new connection; return the status, or an empty text without an answer."""
    data = {"timer_key": 7, "target": WEBHOOK, "tenant_id": "ada", "occurrence": 1, "payload": {"act": act}}
    body = json.dumps({"data": data})
    now = datetime.now(UTC)
    headers = {
        "webhook-id": "timer_7",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign("timer_7", now, body),
        "content-length": str(len(body)),
    }
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"POST /hook HTTP/1.1\r\n{head}\r\n{body}".encode())
    try:
        async with asyncio.timeout(SILENT_S):
            return (await reader.readline()).decode().removeprefix("HTTP/1.1 ")[:3]
    except (TimeoutError, ConnectionResetError):
        return ""
    finally:
        writer.transport.abort()


@pytest.mark.parametrize("act", [act.name for act in WEBHOOKS])
async def test_each_action_has_its_answer_and_is_accepted_in_the_end(port: int, tmp_path: Path, act: str) -> None:
    answers = [await post(port, act) for _ in range(3)]

    assert answers[0] == FIRST[act]
    assert answers[-1].startswith("2")
    came = read_attempts(tmp_path)
    assert [it[:6] for it in came] == [(7, WEBHOOK, "ada", 1, 0, hash_of(json.dumps({"act": act})))] * 3


async def test_a_request_with_a_wrong_signature_has_the_body_of_no_firing(port: int, tmp_path: Path) -> None:
    await post(port, "accept", secret=new_secret())

    (attempt,) = read_attempts(tmp_path)
    assert attempt.body == NOT_OURS
