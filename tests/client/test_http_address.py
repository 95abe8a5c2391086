"""Test that a client finds its gateway and its key, never shows the key, and is imported only at its first use."""

from __future__ import annotations

import logging
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

import shardclock
from shardclock import ApiError, AsyncClient, Client
from shardclock.http import address
from shardclock.http.address import address_of
from tests.support import ROOT
from tests.support.lossy import answering, raw

KEY = "sck_aaaaaaaa_" + "B" * 43


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start without the variables of the developer's environment."""
    for name in ("SHARDCLOCK_API_URL", "SHARDCLOCK_API_KEY", "SHARDCLOCK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)


def test_the_gateways_url_is_given_or_from_the_environment_or_this_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    assert repr(Client()) == "Client('http://127.0.0.1:9841')"
    assert repr(AsyncClient("https://timers.example.com/api/")) == "AsyncClient('https://timers.example.com/api')"
    monkeypatch.setenv("SHARDCLOCK_API_URL", "https://timers.example.com")
    monkeypatch.setenv("SHARDCLOCK_API_KEY", KEY)
    assert repr(Client()) == "Client('https://timers.example.com')"
    assert address_of(None, None, None, insecure=False).key == KEY
    assert address_of("http://localhost:1", "other", None, insecure=False).key == "other"


def test_the_gateway_of_a_second_cluster_on_this_machine_is_found_by_its_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDCLOCK_GATEWAY_PORT", "19841")
    assert repr(AsyncClient()) == "AsyncClient('http://127.0.0.1:19841')"

    # A Service with the name shardclock-gateway sets this variable in the pods of its namespace.
    monkeypatch.setenv("SHARDCLOCK_GATEWAY_PORT", "tcp://10.0.0.1:9841")
    assert repr(Client()) == "Client('http://127.0.0.1:9841')"

    monkeypatch.setenv("SHARDCLOCK_GATEWAY_PORT", "0")
    with pytest.raises(ValueError, match=r"^SHARDCLOCK_GATEWAY_PORT is 0, .* the url, or set SHARDCLOCK_API_URL$"):
        Client()


@pytest.mark.parametrize(
    "url", ["ftp://x", "127.0.0.1:9841", "http://", "https://x?a=b", "https://x#a", "http://x:0x1", "http://[::1"]
)
def test_an_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(
        ValueError, match=r"^url '.*' is refused: it must be http or https, such as http://127\.0\.0\.1:9841$"
    ):
        Client(url)


def test_a_url_with_a_password_is_refused_and_not_shown() -> None:
    with pytest.raises(ValueError, match="has a user name or a password") as refused:
        Client("https://me:s3cret@timers.example.com")
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    "host", ["timers.example.com", "10.0.0.1", "0.0.0.0", "[2001:db8::1]", "localhost.example.com"]
)
def test_a_key_is_not_sent_unencrypted_over_a_network(host: str) -> None:
    with pytest.raises(ValueError, match="can be intercepted; use https, or pass insecure=True") as refused:
        Client(f"http://{host}:9841", key=KEY)
    assert KEY not in str(refused.value)

    Client(f"https://{host}", key=KEY)
    Client(f"http://{host}:9841", key=KEY, insecure=True)
    Client(f"http://{host}:9841")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "[::1]"])
def test_a_key_may_be_sent_unencrypted_on_this_machine(host: str) -> None:
    Client(f"http://{host}:9841", key=KEY)


@pytest.mark.parametrize("key", [f"{KEY}\n", f"{KEY} x", f"{KEY}ä", f"{KEY}\0"])
def test_a_key_that_can_not_be_sent_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(ValueError, match="the API key has characters that no API key has") as refused:
        Client(key=key)
    assert KEY not in str(refused.value)


@pytest.mark.parametrize("tenant", ["", "a\nb", "\ud800", " a"])
def test_a_tenant_that_can_not_be_sent_is_refused(tenant: str) -> None:
    with pytest.raises(ValueError, match=r"^tenant .* is refused: it must be printable text"):
        Client(tenant=tenant)


async def test_the_key_is_sent_and_shown_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with answering(b"", raw(404)) as stub, AsyncClient(stub.url, key=KEY, tenant="ada") as client:
        with pytest.raises(ApiError) as failed:
            await client.get(name="n")
        shown = [repr(client), repr(vars(client)), repr(vars(client._sender)), str(failed.value), repr(failed.value)]

    shown += [*traceback.format_exception(failed.value), caplog.text]
    assert caplog.text
    assert [text for text in shown if KEY in text] == []
    assert all(f"Authorization: Bearer {KEY}" in head for head in stub.heads)
    assert all("Shardclock-Tenant: ada" in head for head in stub.heads)


@pytest.mark.parametrize(
    ("given", "environment", "way_out"),
    [
        ("http://127.0.0.1:1", None, "check the url that the client was given"),
        ("http://127.0.0.1:1", "https://timers.example.com", "check the url that the client was given"),
        (None, "http://127.0.0.1:1", "check SHARDCLOCK_API_URL"),
        (None, None, "the client has no url: if the gateway is elsewhere, pass its url, or set SHARDCLOCK_API_URL"),
    ],
)
async def test_the_error_without_a_gateway_names_the_setting_to_check(
    monkeypatch: pytest.MonkeyPatch, given: str | None, environment: str | None, way_out: str
) -> None:
    monkeypatch.setattr(address, "DEFAULT_URL", "http://127.0.0.1:1")
    if environment is not None:
        monkeypatch.setenv("SHARDCLOCK_API_URL", environment)

    async with AsyncClient(given, retry_for="PT0S") as client:
        with pytest.raises(ApiError, match=rf"^GET .* got no answer from http://127\.0\.0\.1:1 \(.*\); {way_out}$"):
            await client.get(name="n")


async def test_a_key_does_not_follow_a_redirect() -> None:
    async with (
        answering(raw(200, "{}")) as other,
        answering(raw(307, Location=other.url)) as stub,
        AsyncClient(stub.url, key=KEY) as client,
    ):
        with pytest.raises(ApiError, match="answered 307"):
            await client.get(name="n")
    assert other.heads == []


async def test_unencrypted_requests_ignore_the_environments_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with answering(raw(404)) as proxy, answering(raw(404)) as stub:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        async with AsyncClient(stub.url, key=KEY) as client:
            with pytest.raises(ApiError):
                await client.get(name="n")
    assert (len(stub.heads), proxy.heads) == (1, [])


def run(text: str, folder: Path) -> str:
    """Run a program that has only the client of this project."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", text],
        env={"PYTHONPATH": str(ROOT / "client")},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_without_httpx2_handlers_work_and_the_client_names_the_missing_package(tmp_path: Path) -> None:
    asked = """if True:
        import sys
        sys.modules["httpx2"] = None
        import shardclock
        for name in ("AsyncClient", "Client", "ApiError"):
            try:
                exec(f"from shardclock import {name}")
            except ImportError as error:
                print(error)
        print(hasattr(shardclock, "on_timer"), hasattr(shardclock, "nonsense"))
    """
    sentence = (
        "shardclock's client of the HTTP API needs httpx2, which is not installed;"
        " install it: pip install 'shardclock-client[http]'"
    )
    assert run(asked, tmp_path).splitlines() == [sentence] * 3 + ["True False"]


def test_the_http_client_is_imported_at_its_first_use(tmp_path: Path) -> None:
    asked = "import sys, shardclock; print('httpx2' in sys.modules); shardclock.Client; print('httpx2' in sys.modules)"

    assert run(asked, tmp_path).split() == ["False", "True"]


def test_each_public_name_of_the_http_client_exists() -> None:
    assert [name for name in shardclock.http.__all__ if not hasattr(shardclock.http, name)] == []
    assert shardclock.AsyncClient is shardclock.http.AsyncClient
