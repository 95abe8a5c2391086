"""One gateway in a separate process."""

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
    """Run a gateway on any free port; yield its URL after the gateway has printed the URL, and kill the gateway at the
    end.
    """
    with (
        short_dir() as place,
        subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # The gateway gets no metrics socket, because a killed gateway would leave the socket's directory behind.
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
