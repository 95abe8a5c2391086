"""The host process sends its events, and no other output, to its parent."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from shardclock_server.cluster.host_events import ENDING
from tests.support.factories import BOUND_S

NOISY = """
import os
from shardclock_server.cluster import host_events
say = host_events.take_stdout()
print("a line of Ray's", flush=True)
os.system("echo one of a child")
os.write(1, b"\\n" * 100_000)
say(host_events.READY, "")
"""


def test_output_of_other_code_in_the_hosts_process_is_not_read_as_an_event() -> None:
    done = subprocess.run([sys.executable, "-c", NOISY], capture_output=True, text=True, timeout=BOUND_S, check=True)

    assert [json.loads(line) for line in done.stdout.splitlines()] == [{"event": "ready", "why": ""}]
    assert "a line of Ray's" in done.stderr
    assert "one of a child" in done.stderr


TALKATIVE = """
from shardclock_server.cluster import host_events
say = host_events.take_stdout()
for _ in range(10_000):
    say(host_events.WAITING, "")
"""


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_host_continues_if_up_was_killed_or_is_stopped_and_reads_no_events(*, is_killed: bool) -> None:
    with subprocess.Popen([sys.executable, "-c", TALKATIVE], stdout=subprocess.PIPE) as host:
        assert host.stdout is not None
        if is_killed:
            host.stdout.close()
        try:
            assert host.wait(BOUND_S) == 0
        finally:
            host.kill()


LOSES_RAY = """
import shutil, sys
from pathlib import Path

import pytest
from shardclock_server.cluster import host, host_events
say = host_events.take_stdout()
shutil.rmtree = lambda path, **_: say("removed", str(path))
host._give_up("raylet died", Path(sys.argv[1]), say)
"""


def test_a_host_that_has_lost_ray_reports_this_before_it_removes_its_files(tmp_path: Path) -> None:
    """The report lets the local keepers take over, so a slow removal of files must not delay the report."""
    done = subprocess.run(
        [sys.executable, "-c", LOSES_RAY, str(tmp_path)], capture_output=True, text=True, timeout=BOUND_S, check=False
    )

    said = [(it["event"], it["why"]) for it in map(json.loads, done.stdout.splitlines())]
    assert said == [(ENDING, ""), ("removed", str(tmp_path))]
    assert done.returncode == 1
