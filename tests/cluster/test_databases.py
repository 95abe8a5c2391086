"""Prove that what a killed test leaves behind is stopped by the next one."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from cluster.testing.databases import DATA, stop_abandoned
from embedded.server import EmbeddedPostgres
from tests.support import ROOT
from tests.support.factories import BOUND_S

KILLED = """
import asyncio, os, signal
from cluster.testing import cluster

async def main():
    async with cluster():
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.mark.slow
def test_the_server_of_a_killed_test_is_stopped_and_its_files_are_removed(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    killed = subprocess.run([sys.executable, "-c", KILLED], cwd=ROOT, timeout=4 * BOUND_S, check=False)
    assert killed.returncode == -9
    (left,) = place.glob("shardclock-testing-*")
    assert EmbeddedPostgres.at(left / DATA).is_running()

    stop_abandoned()

    assert list(place.glob("shardclock-testing-*")) == []
