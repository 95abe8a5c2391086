"""Run a minute of chaos in each mode of `shardclock up`, and two broken builds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chaos.broken import edited_files, make, try_build
from chaos.broken_builds import BUILDS
from chaos.clusters import MODES
from chaos.history_files import load
from tests.support import ROOT

RUN_S = 300.0  # the measured number is 110 to 130 on two idle cores
# For each mode, a seed with faults in shards, engines, workers, Postgres, `up`, and the processes that only this mode
# has.
SEEDS = {"local": 68, "ray": 257, "standby": 48}
OWN = {
    "local": {"kill local host", "kill fork server", "kill up"},
    "ray": {"kill up"},
    "standby": {"kill local host", "kill host", "kill up"},
}


@pytest.mark.ray
@pytest.mark.exhaustive
@pytest.mark.timed
@pytest.mark.parametrize("mode", MODES)
def test_a_minute_of_faults_breaks_no_promise(tmp_path: Path, mode: str) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "chaos",
            "--minutes",
            "1.2",
            "--seed",
            str(SEEDS[mode]),
            "--cluster",
            mode,
            "--calls-per-s",
            "15",
            "--instances-per-s",
            "2",
            # Two cores run the cluster, the clients and the test program.
            "--patience",
            "4",
            "--to",
            str(tmp_path),
        ],
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-6000:]
    history = load(tmp_path)
    assert len(history.faults) >= 6
    broken = {fault.name for fault in history.faults}
    assert {"kill worker", "kill handler", "freeze worker"} & broken
    assert {"kill engine", "kill engine in a step", "freeze engine before a step"} & broken
    assert broken >= OWN[mode]
    page = (tmp_path / "report.md").read_text()
    assert f"# Run {SEEDS[mode]}: valid" in page
    assert f"cluster {mode}" in page
    assert "0 of " in page
    assert (tmp_path / "lag.svg").read_text().startswith("<svg")


def test_each_edit_of_a_broken_build_changes_its_file() -> None:
    for build in BUILDS:
        texts = edited_files(build)

        assert texts.keys() == {edit.file for edit in build.edits}
        assert all(text != (ROOT / file).read_text() for file, text in texts.items()), build.name


def test_a_broken_build_has_the_edited_files(tmp_path: Path) -> None:
    build = next(build for build in BUILDS if build.name == "no fence")

    make(build, tmp_path)

    assert {file: (tmp_path / file).read_text() for file in edited_files(build)} == edited_files(build)


@pytest.mark.slow
@pytest.mark.chaos
@pytest.mark.parametrize("name", ["no fence", "settles other workers' deliveries", "calls nothing that it was handed"])
def test_the_run_of_a_build_without_a_fence_is_invalid(name: str) -> None:
    build = next(build for build in BUILDS if build.name == name)

    result = try_build(build, seconds=60.0)

    assert result.fits(build), result
