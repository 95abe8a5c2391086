"""Test that a gateway starts and ends as a process should, and that its death loses and doubles no timer."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from unittest import mock

import aiohttp
import pytest

from shardclock_server.cluster.gateway import MODULE, GatewayProcess
from shardclock_server.cluster.settings import load_settings
from shardclock_server.gateway import serving
from shardclock_server.gateway.serving import serve
from shardclock_server.gateway.settings import CannotServe, GatewaySettings
from shardclock_server.sql.dsn import Dsn
from tests.support.cli_asserts import BAD_INPUT, DOWN, NOT_THERE, WRONG_SCHEMA, assert_refused
from tests.support.factories import BOUND_S, query, sql
from tests.support.gateway_process import gateway_process
from tests.support.gateways import reads_log
from tests.support.program import Shell, until
from tests.support.roles import as_role
from tests.support.tls import Authority
from tests.support.waiting import eventually
from tools.openapi import PAGE, read_page

KILLS = 4
SENDERS = 8


@pytest.fixture
def shell(dsn: str, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Run commands in this process, on a migrated, empty database."""
    return Shell(dsn, capsys)


async def get(url: str) -> int:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status


@pytest.mark.slow
def test_a_gateway_serves_only_tls_until_a_signal_answers_waiting_callers_and_exits_with_success(
    dsn: str, tmp_path: Path
) -> None:
    authority = Authority(tmp_path / "ca")
    authority.certify("localhost")
    files = {"CERT": str(tmp_path / "ca" / "crt"), "KEY": str(tmp_path / "ca" / "key")}
    tls = {f"SHARDCLOCK_GATEWAY_TLS_{name}": file for name, file in files.items()}
    trusting = ssl.create_default_context(cafile=authority.ca)

    async def wait_and_stop(url: str) -> tuple[int, object]:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as session:
            async with session.get(f"{url}/readyz") as ready:
                assert ready.status == 200
            with pytest.raises(aiohttp.ClientError):
                await session.get(f"{url.replace('https', 'http')}/readyz")
            ask = session.post(f"{url}/v1/timers?wait=PT60S", json={"delay": "PT1H"})
            task = asyncio.create_task(ask.__aenter__())
            await eventually(lambda: reads_log(dsn))
            process.send_signal(signal.SIGTERM)
            answer = await task
            return answer.status, (await answer.json())["end"]

    with gateway_process(as_role(dsn, "gateway"), **tls) as (url, process):
        assert url.startswith("https://127.0.0.1:")
        assert asyncio.run(wait_and_stop(url.replace("127.0.0.1", "localhost"))) == (201, None)
        assert process.wait(BOUND_S) == 0


@pytest.mark.slow
def test_the_gateway_of_up_ends_with_up(dsn: str) -> None:
    command = [sys.executable, "-P", "-m", MODULE]
    with gateway_process(as_role(dsn, "gateway"), command=command) as (_, process):
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(BOUND_S) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "sign", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.exhaustive)], ids=lambda sign: sign.name
)
def test_the_gateway_of_up_ends_silently_at_a_signal(dsn: str, sign: signal.Signals) -> None:
    command = [sys.executable, "-P", "-m", MODULE]
    with gateway_process(as_role(dsn, "gateway"), command=command) as (_, process):
        process.send_signal(sign)
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert process.wait(BOUND_S) == 0


def test_an_unusable_certificate_is_refused_at_the_start(shell: Shell) -> None:
    for files, words in (
        ({"CERT": "/nowhere/crt", "KEY": "/nowhere/key"}, ["/nowhere/crt", "No such file"]),
        ({"CERT": "pyproject.toml", "KEY": "pyproject.toml"}, ["pyproject.toml"]),
        ({"CERT": "pyproject.toml"}, ["SHARDCLOCK_GATEWAY_TLS_KEY", "both"]),
    ):
        tls = {f"SHARDCLOCK_GATEWAY_TLS_{name}": file for name, file in files.items()}
        with mock.patch.dict(os.environ, tls):
            done = shell("gateway", SHARDCLOCK_GATEWAY_PORT="0")
        assert_refused(done, *words, code=NOT_THERE)


def test_a_port_that_is_taken_is_refused_in_a_sentence(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        done = shell("gateway", SHARDCLOCK_GATEWAY_PORT=port)

    assert_refused(done, f"the port {port} of 127.0.0.1 can't be opened (Address already in use): ", code=NOT_THERE)
    assert_refused(done, "SHARDCLOCK_GATEWAY_PORT", code=NOT_THERE)


def test_a_host_of_another_machine_is_refused_in_a_sentence(shell: Shell) -> None:
    way_out = "set SHARDCLOCK_GATEWAY_HOST to an address of this machine, such as 127.0.0.1, or to 0.0.0.0 for all"
    for host in ("nohost.invalid", "192.0.2.1", "2001:db8::1", "x" * 64):
        done = shell("gateway", SHARDCLOCK_GATEWAY_HOST=host, SHARDCLOCK_GATEWAY_PORT="0")
        assert_refused(done, host, way_out, code=NOT_THERE)
        assert "PORT" not in done.err


def test_a_database_without_the_schema_ends_the_gateway_with_the_usual_code(shell: Shell) -> None:
    shell.sql("drop schema shardclock cascade")

    assert_refused(shell("gateway", SHARDCLOCK_GATEWAY_PORT="0"), "shardclock migrate", code=WRONG_SCHEMA)


@pytest.mark.parametrize(
    ("role", "words"),
    [
        ("shard", ["test_shard may not serve", "`grant shardclock_gateway to test_shard`"]),
        ("", ["version 0", "shardclock migrate"]),
    ],
    ids=["too-few-rights", "no-schema"],
)
async def test_missing_rights_or_a_missing_schema_are_refused_at_the_start(
    dsn: str, role: str, words: list[str]
) -> None:
    if not role:
        await query(dsn, "drop schema shardclock cascade")
    with pytest.raises(CannotServe) as refused:
        async with asyncio.timeout(BOUND_S):
            await serve(GatewaySettings(gateway_port=0), as_role(dsn, role) if role else dsn, tell=print)

    for word in words:
        assert word in str(refused.value)


async def test_objects_from_before_the_start_are_frozen_for_the_garbage_collector(dsn: str, collector: None) -> None:
    frozen = list[int]()
    gc.unfreeze()

    def tend() -> None:
        frozen.append(gc.get_freeze_count())
        raise ZeroDivisionError  # ends the gateway, because the count is recorded

    with (
        closing(serving.listen("127.0.0.1", 0)) as listener,
        mock.patch.object(serving, "listen", return_value=listener),
        pytest.raises(ZeroDivisionError),
    ):
        await serve(GatewaySettings(gateway_port=0), as_role(dsn, "gateway"), tell=print, maintain=tend)
    assert frozen[0] > 100_000


@pytest.mark.exhaustive
def test_a_taken_metrics_port_is_reported_once_and_used_when_it_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        with gateway_process(DOWN, SHARDCLOCK_METRICS_PORT=port) as (url, process):
            assert asyncio.run(get(f"{url}/healthz")) == 200  # meanwhile the gateway serves the API
            other.close()
            assert process.stderr is not None
            bound = threading.Timer(BOUND_S, process.kill)
            bound.start()
            said = list(until_metrics(process.stderr))
            bound.cancel()

    assert said[-1].strip() == f"metrics at http://127.0.0.1:{port}/metrics"
    assert [line for line in said[:-1] if "metrics port" in line] == []  # the report came before the API was served


def until_metrics(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield line
        if "metrics at" in line:
            return


async def test_the_maintenance_tasks_of_a_gateway_continue_after_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serving, "TEND_S", 0.0)
    turns = 0

    def tend() -> None:
        nonlocal turns
        turns += 1
        assert turns > 1, "the first turn fails"

    task = asyncio.create_task(serving._maintain_repeatedly(tend))
    await eventually(lambda: turns > 2)
    task.cancel()


def test_a_gateway_without_keys_refuses_to_listen_beyond_this_machine(shell: Shell) -> None:
    done = shell("gateway", SHARDCLOCK_GATEWAY_HOST="0.0.0.0", SHARDCLOCK_GATEWAY_KEYS="false")

    assert_refused(done, "0.0.0.0", "SHARDCLOCK_GATEWAY_KEYS", code=NOT_THERE)


OIDC = {
    "SHARDCLOCK_GATEWAY_OIDC_ISSUER": "https://sso.example",
    "SHARDCLOCK_GATEWAY_OIDC_CLIENT_ID": "shardclock",
    "SHARDCLOCK_GATEWAY_OIDC_GROUPS": "ops=operate@*",
    "SHARDCLOCK_GATEWAY_URL": "https://ops.example/timers",
}


def test_wrong_settings_of_the_sign_in_are_refused_at_the_start_in_one_sentence(shell: Shell) -> None:
    cases: list[tuple[dict[str, str | None], list[str], int]] = [
        ({"GATEWAY_OIDC_CLIENT_ID": None}, ["SHARDCLOCK_GATEWAY_OIDC_CLIENT_ID", "set all four"], NOT_THERE),
        ({"GATEWAY_OIDC_GROUPS": None}, ["SHARDCLOCK_GATEWAY_OIDC_GROUPS", "set all four"], NOT_THERE),
        ({"GATEWAY_URL": None}, ["SHARDCLOCK_GATEWAY_URL", "set all four"], NOT_THERE),
        ({"GATEWAY_URL": "http://ops.example"}, ["http://ops.example must be an https address"], NOT_THERE),
        ({"GATEWAY_KEYS": "false"}, ["SHARDCLOCK_GATEWAY_KEYS is false"], NOT_THERE),
        ({"GATEWAY_OIDC_SECRET": "s3", "GATEWAY_OIDC_SECRET_FILE": "/x"}, ["both give the secret"], NOT_THERE),
        ({"GATEWAY_OIDC_ISSUER": "http://sso.example"}, ["SHARDCLOCK_GATEWAY_OIDC_ISSUER is", "https"], BAD_INPUT),
        (
            {"GATEWAY_OIDC_GROUPS": "ops=root@*"},
            ["SHARDCLOCK_GATEWAY_OIDC_GROUPS is", "unknown scope 'root'"],
            BAD_INPUT,
        ),
        ({"GATEWAY_OIDC_SCOPES": "profile"}, ["SHARDCLOCK_GATEWAY_OIDC_SCOPES is"], BAD_INPUT),
    ]
    for changes, words, code in cases:
        changed = {f"SHARDCLOCK_{name}": value for name, value in changes.items()}
        given = {name: value for name, value in (OIDC | changed).items() if value is not None}
        with mock.patch.dict(os.environ, given):
            done = shell("gateway", SHARDCLOCK_GATEWAY_PORT="0")
        assert_refused(done, *words, code=code)


@pytest.mark.slow
def test_up_restarts_a_dead_gateway(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("ENABLED", "true"), ("PORT", "0")):
        monkeypatch.setenv(f"SHARDCLOCK_GATEWAY_{name}", text)
    told: list[str] = []
    gateway = GatewayProcess(load_settings(), Dsn(as_role(dsn, "gateway")), tell=told.append)
    try:
        gateway.tend()
        first = gateway.pid
        assert first is not None
        gateway.kill()
        until(lambda: _is_another(gateway, first), "a new gateway")
        assert told == ["the HTTP API has ended and is started again in 0 s; timers fire without it"]
    finally:
        gateway.stop()
    assert gateway.pid is None


def _is_another(gateway: GatewayProcess, pid: int) -> bool:
    gateway.tend()
    return gateway.pid not in (None, pid)


class Senders:
    """Clients that repeat each request until it is acknowledged, always at the gateway that is running."""

    def __init__(self) -> None:
        self.url = ""
        self.acknowledged: dict[str, int] = {}
        self._is_over = False

    async def run(self, steps: Callable[[], Awaitable[None]]) -> None:
        """Send requests while the test takes its steps."""
        timeout = aiohttp.ClientTimeout(total=5)
        async with aiohttp.ClientSession(timeout=timeout) as session, asyncio.TaskGroup() as group:
            for sender in range(SENDERS):
                group.create_task(self._send(sender, session))
            await steps()
            self._is_over = True

    async def some_more(self) -> None:
        """Wait for a hundred more acknowledgements."""
        before = len(self.acknowledged)
        await eventually(lambda: len(self.acknowledged) >= before + 100)

    async def _send(self, sender: int, session: aiohttp.ClientSession) -> None:
        number = 0
        while not self._is_over:
            key = f"{sender}-{number}"
            body, headers = {"delay": "PT1H", "payload": key}, {"Idempotency-Key": key}
            try:
                async with session.post(f"{self.url}/v1/timers", json=body, headers=headers) as answer:
                    said = await answer.json()
            except (aiohttp.ClientError, ValueError):
                await asyncio.sleep(0.01)
                continue
            if answer.status == 201:
                self.acknowledged[key] = said["timer_key"]
                number += 1


@pytest.mark.exhaustive
def test_each_acknowledged_create_is_stored_once_when_gateways_are_killed_in_mid_request(dsn: str) -> None:
    senders = Senders()

    async def kill_again_and_again() -> None:
        for _ in range(KILLS):
            with gateway_process(as_role(dsn, "gateway")) as (senders.url, process):
                await senders.some_more()
                process.kill()

    asyncio.run(senders.run(kill_again_and_again))

    stored = sql(dsn, "select timer_key, payload #>> '{}' as payload from shardclock.timers")
    found = {row["payload"]: row["timer_key"] for row in stored}
    assert len(senders.acknowledged) >= KILLS * 100
    assert len(found) == len(stored)  # no timer twice
    assert senders.acknowledged.items() <= found.items()
    # The gateway may not have acknowledged the last timer of each sender.
    assert len(found) - len(senders.acknowledged) <= SENDERS


def test_the_reference_is_that_of_the_code() -> None:
    assert PAGE.read_text(encoding="utf-8") == read_page(), "write it anew: make docs"
