"""The commands of docs/first-timer.md work on a running cluster, in the order of the page."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cluster_process import ClusterProcess
from tests.support.doc_blocks import blocks
from tests.support.factories import BOUND_S
from tests.support.program import run, until

pytestmark = [pytest.mark.ray, pytest.mark.exhaustive]

PAGE = [block for block in blocks() if block.where.startswith("docs/first-timer.md")]
# Commands that a reader runs once; the test skips them, because it has prepared their results.
DONE_ALREADY = ("make setup", ". .venv/bin/activate", "shardclock up")


def typed(text: str, up: ClusterProcess) -> str:
    """Run a block's commands, as a reader does in a second terminal; return their output."""
    commands = [line[2:] for line in text.splitlines() if line.startswith("$ ") and line[2:] not in DONE_ALREADY]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", "\n".join(["set -e", *commands])],
        cwd=up.place,
        env=os.environ | up.environment | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=4 * BOUND_S,
        check=False,
    )
    assert done.returncode == 0, f"{commands}: {done.stdout}{done.stderr}"
    return done.stdout


def test_the_page_works_on_a_running_cluster(place: Path) -> None:
    (program,) = [block.text for block in PAGE if block.kind == "python"]
    (place / "greet.py").write_text(program)
    up = ClusterProcess(place)
    try:
        up.until_running()
        until(up.serving, "two shards")
        printed = ""
        for block in PAGE:
            if block.kind != "console":
                continue
            if "tail --from-start" in block.text:  # "wait ten seconds"
                until(lambda: has_fired(up), "the timer to fire")
            printed += typed(block.text, up)
    finally:
        up.end()

    assert "timer 'hello' of tenant 'default', FIRED" in printed
    assert "PAUSED" in printed
    assert printed.count('{"to": "Ada"}') >= 2, "in the log, and among the greetings"
    assert printed.count("read for 5 s") == 2


def has_fired(up: ClusterProcess) -> bool:
    return "FIRED" in run("explain", "--name", "hello", environment=up.environment).out
