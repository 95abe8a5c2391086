"""Run one shard in a separate process, so that a test can kill or freeze it: python -m tests.support.shard_process.

argv:    the holder, the settings as JSON, and the DSN
stdout:  the shard's stats as JSON, at the end
exit:    0 after a drain (SIGTERM), 3 when the holder was ended
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE
from typing import IO, Any

from shardclock_server.shards.settings import ShardSettings
from shardclock_server.shards.shard import Shard
from tests.support.factories import BOUND_S, add_holder
from tests.support.roles import as_role
from tests.support.separate_keeper import SeparateKeeper, log_to_stderr, run_until_drained
from tests.support.shard_pool import incarnation

JUMP_S = 1.5


class ShardProcess(SeparateKeeper):
    """One shard's process, for a test."""

    def __init__(
        self, holder: int, settings: ShardSettings, dsn: str, *, build: Path | None = None, log: IO[bytes] | None = None
    ) -> None:
        words = (settings.model_dump_json(), dsn)
        super().__init__(holder, "tests.support.shard_process", *words, stdout=PIPE, build=build, log=log)

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    async def ended(self) -> tuple[int, dict[str, int]]:
        """Wait for the end of the process; return its exit status and its stats."""
        said, _ = await asyncio.to_thread(self._process.communicate, timeout=BOUND_S)
        return self._process.returncode, json.loads(said)


@asynccontextmanager
async def shard_process(dsn: str, shard: int = 0, of: int = 1, **tuning: Any) -> AsyncIterator[ShardProcess]:
    """Start a shard with its assignment in a separate process, which ends with the block."""
    holder = incarnation().holder
    await add_holder(dsn, holder, shard, of)
    process = ShardProcess(holder, ShardSettings(**tuning), as_role(dsn, "shard"))
    try:
        yield process
    finally:
        process.kill()


def _jump(shard: Shard) -> None:
    """Move the shard's own clock ahead permanently, as after a sleep of its machine."""
    clock, ahead_s = shard._clock, JUMP_S
    before = clock._monotonic
    clock._monotonic = lambda: before() + ahead_s
    shard._queue.wake()


async def _main(holder: int, settings: ShardSettings, dsn: str) -> int:
    log_to_stderr()
    shard = Shard(replace(incarnation(), holder=holder), settings, dsn)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, _jump, shard)
    try:
        return await run_until_drained(shard)
    finally:
        sys.stdout.write(json.dumps(shard.stats.counts()))


if __name__ == "__main__":
    sys.exit(asyncio.run(_main(int(sys.argv[1]), ShardSettings.model_validate_json(sys.argv[2]), sys.argv[3])))
