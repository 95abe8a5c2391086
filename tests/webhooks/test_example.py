"""Test the example receiver: it accepts a correctly signed webhook once, and refuses all other requests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from yarl import URL

from shardclock_server.webhooks.answer_classification import Answer, Delivered, RetryDelivery
from shardclock_server.webhooks.endpoint import Endpoint
from shardclock_server.webhooks.envelope import write_body
from shardclock_server.webhooks.sender import WebhookMessage, WebhookSender
from shardclock_server.webhooks.signing import check_secrets, new_secret
from tests.support import ROOT
from tests.support.factories import BOUND_S

SECRET, OLD_SECRET, WRONG_SECRET = new_secret(), new_secret(), new_secret()
EXAMPLE = ROOT / "examples" / "webhook_receiver.py"
BODY = write_body(datetime(2026, 3, 29, 12, tzinfo=UTC), {"name": "cart-7"}, '{"cart": 7}')


@pytest.fixture
def example() -> Iterator[subprocess.Popen[str]]:
    pytest.importorskip("standardwebhooks", reason="the package standardwebhooks is not installed")
    command = [sys.executable, str(EXAMPLE), "0"]
    env = {**os.environ, "WEBHOOK_SECRET": SECRET}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        yield process
        process.kill()


async def test_the_example_verifies(example: subprocess.Popen[str], sender: WebhookSender) -> None:
    assert example.stdout is not None
    port = example.stdout.readline().removeprefix("listening on port ").strip()
    endpoint = Endpoint(URL(f"http://127.0.0.1:{port}/"), (), check_secrets([OLD_SECRET, SECRET]), 5.0)

    async def send(webhook_id: str, *secrets: str) -> Answer:
        return await sender.send(replace(endpoint, keys=check_secrets(secrets)), WebhookMessage(webhook_id, BODY))

    for _ in range(2):
        assert isinstance(await send("timer_1", OLD_SECRET, SECRET), Delivered)
    wrong = await send("timer_2", WRONG_SECRET)
    assert isinstance(wrong, RetryDelivery)
    assert wrong.reason == "answered 401 Unauthorized"
    assert isinstance(await send("timer_3", SECRET), Delivered)

    printed = [example.stdout.readline() for _ in range(2)]
    assert printed == ["timer.fired {'name': 'cart-7', 'payload': {'cart': 7}}\n"] * 2


@pytest.mark.parametrize("given", [{}, {"WEBHOOK_SECRET": ""}], ids=str)
def test_the_example_without_a_secret_names_the_missing_variable(given: dict[str, str]) -> None:
    pytest.importorskip("standardwebhooks", reason="the package standardwebhooks is not installed")
    env = {name: value for name, value in os.environ.items() if name != "WEBHOOK_SECRET"} | given
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), "0"], env=env, capture_output=True, text=True, check=False, timeout=BOUND_S
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"WEBHOOK_SECRET is not set: .* `shardclock endpoints add`.*\n", done.stderr)
