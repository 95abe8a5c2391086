"""Run one shard in a process of its own, so that a test can kill or freeze it: python -m tests.shard_process.

argv:    the holder, and the settings as JSON
says:    its tally as JSON at the end
exit:    0 after a drain (SIGTERM), 3 when its holder was ended
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
from subprocess import PIPE, Popen
from typing import IO, Any

import structlog

from shards.pulse import HolderEnded
from shards.settings import ShardSettings
from shards.shard import Shard
from tests.crew import incarnation
from tests.store import BOUND_S, add_holder

HOLDER_ENDED = 3
JUMP_S = 1.5


class ShardProcess:
    """Hold one such process."""

    def __init__(
        self, holder: int, settings: ShardSettings, *, build: Path | None = None, log: IO[bytes] | None = None
    ) -> None:
        self.holder = holder
        self._process = Popen(
            [sys.executable, "-m", "tests.shard_process", str(holder), settings.model_dump_json()],
            stdout=PIPE,
            stderr=log,
            text=True,
            cwd=build,  # where Python looks first: another build than the one under which the test runs
        )

    @property
    def pid(self) -> int:
        """Give its process id."""
        return self._process.pid

    def has_ended(self) -> bool:
        """Say whether it is gone."""
        return self._process.poll() is not None

    def kill(self) -> None:
        """Kill it as `kill -9` does, and wait until it is gone."""
        self._process.kill()
        self._process.wait(BOUND_S)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def freeze(self) -> None:
        """Stop it where it is."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._process.send_signal(signal.SIGCONT)

    async def ended(self) -> tuple[int, dict[str, int]]:
        """Wait for its end; its exit status and its tally."""
        said, _ = await asyncio.to_thread(self._process.communicate, timeout=BOUND_S)
        return self._process.returncode, json.loads(said)


@asynccontextmanager
async def shard_process(dsn: str, shard: int = 0, of: int = 1, **tuning: Any) -> AsyncIterator[ShardProcess]:
    """Start a shard with its assignment in a process of its own; it does not outlive the block."""
    holder = incarnation().holder
    await add_holder(dsn, holder, shard, of)
    process = ShardProcess(holder, ShardSettings(dsn=dsn, **tuning))
    try:
        yield process
    finally:
        process.kill()


def _jump(shard: Shard) -> None:
    """Put the shard's own clock ahead, for good, as that of a machine that has slept."""
    clock, ahead_s = shard._clock, JUMP_S
    before = clock._monotonic
    clock._monotonic = lambda: before() + ahead_s
    shard._queue.wake()


async def _main(holder: int, settings: ShardSettings) -> int:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    shard = Shard(replace(incarnation(), holder=holder), settings)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, _jump, shard)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: asyncio.ensure_future(shard.drain()))
    try:
        await shard.run()
    except HolderEnded:
        return HOLDER_ENDED
    finally:
        sys.stdout.write(json.dumps(shard.tally.counts()))
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(_main(int(sys.argv[1]), ShardSettings.model_validate_json(sys.argv[2]))))
