"""A receiver of webhooks for the benchmarks: python -m benchmarks.receiver FOLDER.

The receiver accepts requests to /, and records the due date of each timer and the time of its request. The receiver
never answers requests to /stuck, and writes its port to the file `port`.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import json
import os
import sys
import time
from pathlib import Path

from aiohttp import web

EVERY_S = 0.05
STUCK_S = 3_600.0


async def main(folder: Path) -> None:
    """Receive requests until the process is ended."""
    calls: list[float] = []

    async def take(request: web.Request) -> web.Response:
        calls.extend((json.loads(await request.read())["data"]["payload"]["due"], time.time()))
        return web.Response(status=204)

    async def be_stuck(_: web.Request) -> web.Response:
        await asyncio.sleep(STUCK_S)
        raise AssertionError("never")

    app = web.Application()
    app.router.add_post("/", take)
    app.router.add_post("/stuck", be_stuck)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    (folder / "port.new").write_text(str(runner.addresses[0][1]))
    (folder / "port.new").rename(folder / "port")
    with (folder / f"sheet-{os.getpid()}").open("ab", buffering=0) as sheet:
        while True:
            await asyncio.sleep(EVERY_S)
            values, calls[:] = array.array("d", calls), []
            sheet.write(values.tobytes())


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(Path(sys.argv[1])))
