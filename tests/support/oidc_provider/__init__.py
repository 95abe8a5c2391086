"""Run oidc-provider, a certified OpenID provider, in Node.js; `make oidc-provider` installs it."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from jwt.algorithms import RSAAlgorithm

from tests.support.factories import BOUND_S
from tests.support.identity_provider import CLIENT, SigningKey

HERE = Path(__file__).parent
MODULES = Path("~/.cache/shardclock/oidc-provider/node_modules").expanduser()
PEOPLE = {
    "u-ops": {"preferred_username": "grace", "groups": ["ops"]},
    "u-shop": {"email": "ada@shop.example", "groups": ["shop readers"]},
    "u-other": {"preferred_username": "eve", "groups": ["other"]},
}


def require_package() -> None:
    if shutil.which("node") is None or not (MODULES / "oidc-provider").is_dir():
        pytest.skip("no Node.js or no oidc-provider here: `make oidc-provider` installs the package")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@asynccontextmanager
async def certified_provider(port: int, redirect_uri: str, client: Mapping[str, Any]) -> AsyncIterator[str]:
    """Run the provider with a new key; yield its address, which belongs to another site than the console's address."""
    key = SigningKey("drawn", "RS256")
    config = {
        "modules": str(MODULES),
        "port": port,
        "keys": {"keys": [{**json.loads(RSAAlgorithm.to_jwk(key.private)), "use": "sig"}]},
        "client": {"client_id": CLIENT, "redirect_uris": [redirect_uri], **client},
        "people": PEOPLE,
    }
    process = await asyncio.create_subprocess_exec(
        "node",
        HERE / "provider.mjs",
        json.dumps(config),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(BOUND_S):
            assert await process.stdout.readline() == b"ready\n"
        yield f"http://localhost:{port}"
    finally:
        process.kill()
        await process.wait()
