"""Run one engine in a separate process, so that a test can kill or freeze it: python -m tests.support.engine_process.

argv:    the holder, the settings as JSON, and the DSN
exit:    0 after a drain (SIGTERM), 3 when the holder was ended
"""

from __future__ import annotations

import asyncio
import signal
import sys
from dataclasses import replace
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import IO

import structlog

from shardclock_server.engine.engine import Engine
from shardclock_server.engine.settings import EngineSettings
from shardclock_server.keepers.heartbeat import HolderEnded
from shardclock_server.sql.cluster.holders import ENGINE
from tests.support.factories import BOUND_S
from tests.support.shard_pool import incarnation

HOLDER_ENDED = 3


class EngineProcess:
    """One engine's process, for a test."""

    def __init__(
        self,
        holder: int,
        settings: EngineSettings,
        dsn: str,
        *,
        build: Path | None = None,
        log: IO[bytes] | None = None,
    ) -> None:
        self.holder = holder
        self._process = Popen(
            [sys.executable, "-m", "tests.support.engine_process", str(holder), settings.model_dump_json(), dsn],
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=log,
            cwd=build,  # Python looks here first, so the engine may run another build than the test
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(BOUND_S)


async def _main(holder: int, settings: EngineSettings, dsn: str) -> int:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    engine = Engine(replace(incarnation(), holder=holder, role=ENGINE), settings, dsn)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: asyncio.ensure_future(engine.drain()))
    try:
        await engine.run()
    except HolderEnded:
        return HOLDER_ENDED
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(_main(int(sys.argv[1]), EngineSettings.model_validate_json(sys.argv[2]), sys.argv[3])))
