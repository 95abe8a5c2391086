"""Change the database's clock and fill its disk; these faults need root."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from chaos.faults.fault import Hit, Injection
from chaos.sandbox import Sandbox

CLOCK = "clock"
FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")  # Debian's path
DISK_MIB = 320
MIB = 1024 * 1024


def set_clock(offset: str) -> Injection:
    """Move Postgres's clock by `offset` for `for_s` seconds; the sandbox must have `a_clock_of_its_own`."""

    async def inject(sandbox: Sandbox, _: random.Random, for_s: float) -> Hit:
        clock = sandbox.directory / CLOCK
        clock.write_text(f"{offset}\n")
        await asyncio.sleep(for_s)
        clock.write_text("+0s\n")
        return Hit(detail={"offset_s": 3600.0 if offset == "+1h" else -3600.0})

    return inject


async def fill_disk(sandbox: Sandbox, _: random.Random, for_s: float) -> Hit:
    """Fill the disk for `for_s` seconds; the sandbox must have `a_disk_of_its_own`."""
    ballast = sandbox.postmaster.data_dir / "ballast"
    try:
        with suppress(OSError), ballast.open("wb") as file:
            while True:
                file.write(bytes(MIB))
                file.flush()
        await asyncio.sleep(for_s)
    finally:
        ballast.unlink()
    await sandbox.restart_postgres()
    return Hit(ended_at=time.time())


@contextmanager
def a_clock_of_its_own(directory: Path) -> Iterator[None]:
    """Let Postgres read the time through libfaketime, with an offset from a file."""
    clock = directory / CLOCK
    directory.chmod(0o755)  # The server runs as another user, which must be able to read the file.
    clock.write_text("+0s\n")
    clock.chmod(0o644)
    faked = {
        "LD_PRELOAD": str(FAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    os.environ.update(faked)
    try:
        yield
    finally:
        for name in faked:
            del os.environ[name]


@contextmanager
def a_disk_of_its_own(directory: Path) -> Iterator[None]:
    """Put Postgres's data on a small file system in memory."""
    disk = directory / "postgres"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", disk], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)
