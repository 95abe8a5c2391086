"""One gateway in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.support.exporting import short_dir
from tests.support.program import PROGRAM

SERVES = re.compile(r"HTTP API at (https?://\S+?)(?=,|\s)")
COMMAND = [*PROGRAM, "gateway"]


@contextmanager
def gateway_process(
    dsn: str, *, command: Sequence[str] = COMMAND, **environment: str
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run a gateway on any free port; give its URL once it says it, and kill it at the end."""
    with (
        short_dir() as place,
        subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Without a socket of its own for metrics, one that is killed would leave a directory behind.
            env=os.environ
            | {
                "SHARDCLOCK_DSN": dsn,
                "SHARDCLOCK_GATEWAY_PORT": "0",
                "SHARDCLOCK_METRICS_SOCKET": str(place / "exporter.sock"),
            }
            | environment,
        ) as process,
    ):
        try:
            assert process.stderr is not None
            lines = iter(process.stderr.readline, "")
            yield next(found[1] for line in lines if (found := SERVES.search(line))), process
        finally:
            process.kill()
