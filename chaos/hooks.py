"""Endpoints for the webhooks of a run, one for each tenant, and the receiver to which they lead."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from chaos.acts import WEBHOOK
from chaos.away import until
from chaos.plan import TENANTS
from chaos.stage import Stage
from shardclock_server.sql.endpoints.endpoints import StoredEndpoint, add_endpoint
from shardclock_server.sql.session import Session
from shardclock_server.webhooks.signing import new_secret
from tests.support import ROOT
from tests.support.roles import as_role

STARTS_S = 20.0
POLICY = {"timeout_s": 2.0, "retry_min_s": 0.1, "retry_max_s": 0.4}


@asynccontextmanager
async def receiving(stage: Stage) -> AsyncIterator[None]:
    """Start the receiver of a stage whose server is up, and give each tenant its endpoint."""
    port_file, secret = stage.place / "receiver.port", new_secret()
    command = [sys.executable, "-m", "chaos.receiver", str(port_file), secret]
    receiver = await asyncio.to_thread(subprocess.Popen, command, cwd=ROOT)
    try:

        async def listens() -> bool:
            return port_file.exists()

        assert await until(listens, within_s=STARTS_S), "the receiver did not start"
        url = f"http://127.0.0.1:{port_file.read_text()}/hook"
        async with Session(as_role(stage.direct_dsn, "shard"), application="chaos") as session:
            for tenant_id in TENANTS:
                name = WEBHOOK.removeprefix("webhook:")
                assert await add_endpoint(session, StoredEndpoint(tenant_id, name, url, {}, (secret,), POLICY))
        yield
    finally:
        receiver.kill()
        receiver.wait()
