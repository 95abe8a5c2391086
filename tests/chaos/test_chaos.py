"""A minute of chaos on a real Ray, with all that can be broken there; and a build that is broken on purpose."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chaos.broken import make, try_build
from chaos.builds import BUILDS, Build
from chaos.files import load
from tests.support import ROOT

RUN_S = 300.0  # 110 to 130 on two quiet cores
SEED = 257  # breaks engines, a handler, the store and Ray's head beside shards


@pytest.mark.ray
@pytest.mark.exhaustive
@pytest.mark.timed
def test_a_short_run_on_ray_in_which_everything_is_broken_keeps_every_promise(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "chaos",
            "--minutes",
            "1.2",
            "--seed",
            str(SEED),
            "--calls-per-s",
            "15",
            "--instances-per-s",
            "2",
            # Two cores carry the cluster, its clients and the rig.
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
    page = (tmp_path / "report.md").read_text()
    assert f"# Run {SEED}: valid" in page
    assert "0 of " in page
    assert (tmp_path / "lag.svg").read_text().startswith("<svg")


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.name)
def test_each_broken_build_still_finds_the_words_that_it_breaks(tmp_path: Path, build: Build) -> None:
    make(build, tmp_path)

    assert all((tmp_path / edit.file).read_text() != (ROOT / edit.file).read_text() for edit in build.edits)


@pytest.mark.slow
@pytest.mark.chaos
@pytest.mark.parametrize("name", ["no fence", "settles what others have in hand"])
def test_a_build_without_a_fence_turns_the_run_red(name: str) -> None:
    build = next(build for build in BUILDS if build.name == name)

    result = try_build(build, seconds=60.0)

    assert result.fits(build), result
