"""Start the webhook receiver of a run, and add an endpoint with the receiver's address for each tenant."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from chaos.behaviours import WEBHOOK
from chaos.plan import TENANTS
from chaos.sandbox import Sandbox
from chaos.waiting import until
from shardclock_server.sql.endpoints.endpoints import StoredEndpoint, add_endpoint
from shardclock_server.sql.session import Session
from shardclock_server.webhooks.signing import new_secret
from tests.support import ROOT
from tests.support.roles import as_role

STARTS_S = 20.0
POLICY = {"timeout_s": 2.0, "retry_min_s": 0.1, "retry_max_s": 0.4}


@asynccontextmanager
async def receiving(sandbox: Sandbox) -> AsyncIterator[None]:
    """Start the receiver while Postgres runs, and add one endpoint for each tenant."""
    port_file, secret = sandbox.directory / "receiver.port", new_secret()
    command = [sys.executable, "-m", "chaos.webhook_receiver", str(port_file), secret]
    receiver = await asyncio.to_thread(subprocess.Popen, command, cwd=ROOT)
    try:

        async def listens() -> bool:
            return port_file.exists()

        assert await until(listens, within_s=STARTS_S), "the receiver did not start"
        url = f"http://127.0.0.1:{port_file.read_text()}/hook"
        async with Session(as_role(sandbox.direct_dsn, "shard"), application="chaos") as session:
            for tenant_id in TENANTS:
                name = WEBHOOK.removeprefix("webhook:")
                assert await add_endpoint(session, StoredEndpoint(tenant_id, name, url, {}, (secret,), POLICY))
        yield
    finally:
        receiver.kill()
        receiver.wait()
