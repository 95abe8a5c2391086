"""Run broken builds, each with one realistic mistake; the checker must find every mistake.

    python -m chaos.broken

Each build is a copy of the sources in which a few words are replaced. The sound build is an unchanged copy. All builds
execute the same run, on shards without Ray. The sound build runs first and must be valid; otherwise the other results
would prove nothing.
exit:    0 the sound build is valid, and every broken build is invalid
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from chaos.broken_builds import BUILDS, TRIALS, Build, Trial
from chaos.checker import judge
from chaos.clusters import ProcessCluster
from chaos.history import Bounds
from chaos.plan import FaultOption, draw
from chaos.running import run
from chaos.sandbox import sandbox_for
from tests.support import PACKAGE_NAMES, ROOT

PARTS = (*PACKAGE_NAMES, "shardclock_server", "chaos", "k8s", "tests")
AT_ONCE = 2
SEED = 7
SECONDS = 60.0
TUNING: dict[str, Any] = {"claim_batch": 10, "fire_batch": 10, "queue_max": 500}
CLAIM_MAX = 20
# The allowed lateness is longer than the delays of two concurrent trials on two cores, and shorter than the delay that
# each mistake causes.
LATE_S = 2.5
TRIAL_S = 400.0
# A dead shard is restarted so late that other shards must take over its slots, even after several faults in a row.
RESTART_S = 40.0


def main() -> int:
    """Run the trial of each build, and print the results."""
    given = _arguments()
    if given.trial:
        sys.stdout.write(json.dumps(asyncio.run(_trial(TRIALS[given.trial], given.seed, given.seconds))))
        return 0
    asked = [build for build in BUILDS if not given.only or build.name in given.only]
    chosen = [it for it in BUILDS if it in asked or (not it.edits and it.trial in {build.trial for build in asked})]
    with ThreadPoolExecutor(AT_ONCE) as trials:
        found = dict(
            zip(chosen, trials.map(partial(try_build, seed=given.seed, seconds=given.seconds), chosen), strict=True)
        )
    table = Table("build", "verdict", "broken promises", "as expected", title=f"seed {given.seed}")
    for build, result in found.items():
        table.add_row(build.name, result.status, ", ".join(result.broken), "yes" if result.fits(build) else "NO")
        if not result.fits(build):
            _tell("\n    ".join([f"{build.name}:", *result.why]))
    Console().print(table)
    return 0 if all(result.fits(build) for build, result in found.items()) else 1


@dataclass(frozen=True, slots=True)
class Result:
    """The checker's verdict on the run of one build."""

    status: str
    broken: Sequence[str]
    why: Sequence[str]

    def fits(self, build: Build) -> bool:
        """Return whether the checker's verdict on a build is the expected verdict."""
        if not build.breaks:
            return self.status == "valid"
        return self.status == "invalid" and bool(set(self.broken) & set(build.breaks))


def try_build(build: Build, *, seed: int = SEED, seconds: float = SECONDS) -> Result:
    """Create a build in a temporary directory, and run its trial there."""
    with tempfile.TemporaryDirectory(prefix="sc-build-") as directory:
        make(build, Path(directory))
        options = ["--trial", build.trial, "--seed", str(seed), "--seconds", str(seconds)]
        done = subprocess.run(
            [sys.executable, "-m", "chaos.broken", *options],
            cwd=directory,
            capture_output=True,
            timeout=TRIAL_S,
            check=False,
        )
    if done.returncode:
        return Result("broke down", [], done.stderr.decode()[-4000:].splitlines())
    return Result(**json.loads(done.stdout.splitlines()[-1]))


def make(build: Build, directory: Path) -> None:
    """Copy the sources, and apply the edits of a build."""
    for part in PARTS:
        shutil.copytree(ROOT / part, directory / part, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for file, text in edited_files(build).items():
        (directory / file).write_text(text, encoding="utf-8")


def edited_files(build: Build) -> dict[str, str]:
    """Return the texts of the files that a build changes, by their paths.

    errors:  ValueError  a file no longer contains the text that an edit replaces
    """
    texts: dict[str, str] = {}
    for edit in build.edits:
        text = texts.get(edit.file) or (ROOT / edit.file).read_text(encoding="utf-8")
        if edit.old not in text:
            raise ValueError(f"{build.name}: {edit.file} no longer contains {edit.old!r}")
        texts[edit.file] = text.replace(edit.old, edit.new)
    return texts


async def _trial(trial: Trial, seed: int, seconds: float) -> dict[str, object]:
    fault_options = [FaultOption(fault, 1, 2.0, 5.0, 2.0) for fault in trial.faults]
    plan = draw(
        seed,
        length_s=seconds,
        calls_per_s=25.0,
        fault_options=fault_options,
        targeted=trial.targeted,
        instances_per_s=trial.instances_per_s,
    )
    cluster = ProcessCluster(
        3, workers=trial.workers, engines=trial.engines, restart_s=RESTART_S, build=Path.cwd(), **TUNING
    )
    async with sandbox_for(cluster) as sandbox:
        history = await run(plan, sandbox, bounds=Bounds(normal_s=LATE_S, claim_max=CLAIM_MAX), tell=_tell)
    verdict = judge(history, exercised=trial.exercised)
    return {
        "status": verdict.status,
        "broken": [it.promise for it in verdict.findings if it.violations],
        "why": [*verdict.reasons, *(row for it in verdict.findings for row in it.shown)],
    }


def _tell(words: str) -> None:
    sys.stderr.write(f"{words}\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos.broken", description=__doc__)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="the length of the load with faults, in minutes")
    parser.add_argument(
        "--only", action="append", metavar="BUILD", help="run only this build and the sound build; may be repeated"
    )
    parser.add_argument("--trial", choices=TRIALS, help="run this trial with the sources in the current directory")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
