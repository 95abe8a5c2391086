"""The first firing waits for the modules of local processes, so these processes load only needed modules."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import shardclock_server.cluster.preloaded
import shardclock_server.cluster.local_cluster
print([name for name in ("rich", "typer", "shardclock.sql", "shardclock_server.gateway.app") if name in sys.modules])
import rich.console
"""


def test_local_processes_load_no_modules_of_the_command_line_and_can_load_them_later() -> None:
    ended = subprocess.run([sys.executable, "-P", "-c", PROGRAM], capture_output=True, text=True, check=True)

    assert ended.stdout == "[]\n"
