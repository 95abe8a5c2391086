"""Run one engine in a separate process, so that a test can kill or freeze it: python -m tests.support.engine_process.

argv:    the holder, the settings as JSON, and the DSN
exit:    0 after a drain (SIGTERM), 3 when the holder was ended
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import IO

from shardclock_server.engine.engine import Engine
from shardclock_server.engine.settings import EngineSettings
from shardclock_server.sql.cluster.holders import ENGINE
from tests.support.separate_keeper import SeparateKeeper, log_to_stderr, run_until_drained
from tests.support.shard_pool import incarnation


def engine_process(
    holder: int, settings: EngineSettings, dsn: str, *, build: Path | None = None, log: IO[bytes] | None = None
) -> SeparateKeeper:
    """Start an engine in a separate process."""
    return SeparateKeeper(holder, "tests.support.engine_process", settings.model_dump_json(), dsn, build=build, log=log)


async def _main(holder: int, settings: EngineSettings, dsn: str) -> int:
    log_to_stderr()
    return await run_until_drained(Engine(replace(incarnation(), holder=holder, role=ENGINE), settings, dsn))


if __name__ == "__main__":
    sys.exit(asyncio.run(_main(int(sys.argv[1]), EngineSettings.model_validate_json(sys.argv[2]), sys.argv[3])))
