"""Test that the client finds the server's stepped cluster, and names the missing distribution without a server."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import pytest

import shardclock.testing
import shardclock_server.cluster.testing
from tests.support import ROOT
from tests.support.installed import tell_installed

WITHOUT_SERVER = """
import shardclock.testing
try:
    shardclock.testing.cluster()
except ImportError as error:
    print(error)
"""


def test_the_stepped_cluster_is_found_by_the_servers_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell_installed(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    asked = []
    monkeypatch.setattr(shardclock_server.cluster.testing, "cluster", lambda app, **more: asked.append((app, more)))
    begin = datetime(2026, 1, 1, tzinfo=UTC)

    shardclock.testing.cluster("reminders", now=begin, seed=7)

    assert asked == [("reminders", {"now": begin, "seed": 7})]


def test_without_the_server_the_error_names_the_missing_distribution(tmp_path: Path) -> None:
    tell_installed(tmp_path)
    (points,) = tmp_path.glob("*.dist-info/entry_points.txt")
    points.write_text("")

    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_SERVER],
        env={"PYTHONPATH": f"{tmp_path}:{ROOT / 'client'}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    wanted = f"install the distribution shardclock {version('shardclock-client')}"
    assert f"the server is not installed here: {wanted}" in done.stdout
