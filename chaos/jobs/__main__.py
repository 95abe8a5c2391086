"""Kill processes while jobs run, and judge the promises about jobs: python -m chaos.jobs --of ray.

exit:    0 valid, 1 a promise was broken, 2 unknown (too few kills, or nothing ran)
"""

from __future__ import annotations

import argparse
import json
import secrets
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import uvloop

from chaos.clusters import UpCluster
from chaos.fault_options import JOB_FAULTS, RAY_FAULTS
from chaos.jobs.promises import Finding, judge
from chaos.jobs.record import JobsRecord
from chaos.jobs.running import FILE, run
from chaos.plan import FaultOption
from chaos.sandbox import sandbox_for

APP = Path(__file__).with_name("app.py")
SHOWN = 10


@dataclass(frozen=True, slots=True)
class RunKind:
    """A kind of run: its faults, the process that each fault kills, and the minutes for 50 kills by each fault."""

    fault_options: Sequence[FaultOption]
    kinds: Mapping[str, str]
    minutes: float


RUNS = {
    "processes": RunKind(
        JOB_FAULTS,
        {
            "kill worker": "worker",
            "kill run": "run's process",
            "kill shard": "shard",
            "kill coordinator": "coordinator",
            "kill postmaster": "Postgres",
        },
        14.0,
    ),
    "ray": RunKind(RAY_FAULTS, {"kill raylet": "Ray", "kill GCS": "Ray"}, 57.0),
}


def main() -> int:
    """Read the arguments, execute the run, and print the results."""
    given = _arguments()
    given.to.mkdir(parents=True, exist_ok=True)
    kind, minutes = RUNS[given.of], given.minutes or RUNS[given.of].minutes
    _tell(f"to repeat this run: python -m chaos.jobs --of {given.of} --minutes {minutes:g} --seed {given.seed}")
    with tempfile.TemporaryDirectory(prefix="sc-") as directory, (given.to / "cluster.log").open("wb") as log:
        record = uvloop.run(
            _run(UpCluster("ray", Path(directory), app=APP, log=log), given, kind.fault_options, minutes * 60)
        )
    (given.to / "record.json").write_text(json.dumps(asdict(record)), encoding="utf-8")
    return tell_all(record, judge(record), kind.kinds, kills_min=given.kills_min)


def tell_all(record: JobsRecord, findings: Sequence[Finding], kinds: Mapping[str, str], *, kills_min: int) -> int:
    """Print the faults and the result of each promise; return the exit code."""
    kills = Counter(dict.fromkeys(kinds.values(), 0))
    # If a fault was interrupted, it may not have killed a process.
    kills.update(kinds[fault.name] for fault in record.faults if "broken_off" not in fault.detail)
    begun = {line.run for line in record.lines}
    crashed = sum(end.outcome == "CRASHED" and end.run in begun for end in record.ends)
    outcomes = Counter(end.outcome for end in record.ends)
    _tell("killed: " + ", ".join(f"{kind} {count}" for kind, count in kills.items()))
    _tell(f"{len(record.starts):,} runs: " + ", ".join(f"{name} {n:,}" for name, n in outcomes.most_common()))
    for it in findings:
        _tell(f"{it.promise} {it.title}: {len(it.broken):,} of {it.cases:,} broken")
        for line in it.broken[:SHOWN]:
            _tell(f"    {line}")
    if any(it.broken for it in findings):
        _tell("invalid")
        return 1
    if few := [
        f"{kind} {count}" for kind, count in [*kills.items(), ("runs that crashed", crashed)] if count < kills_min
    ]:
        _tell(f"unknown: too few kills ({kills_min} each): {', '.join(few)}")
        return 2
    if empty := [it.promise for it in findings if not it.cases]:
        _tell(f"unknown: {', '.join(empty)} had no case")
        return 2
    _tell("valid")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos.jobs", description=__doc__)
    parser.add_argument("--of", choices=RUNS, default="processes", help="kill single processes, or all of Ray")
    parser.add_argument(
        "--minutes",
        type=float,
        help="how many minutes the faults last; by default, until each kind of fault has happened 50 times",
    )
    parser.add_argument(
        "--seed", type=int, default=secrets.randbelow(10**6), help="the seed of an earlier run, to repeat the run"
    )
    parser.add_argument(
        "--kills-min",
        type=int,
        default=50,
        help="the minimum number of kills of each kind; with fewer kills, the verdict is unknown",
    )
    parser.add_argument("--to", type=Path, default=Path("build/chaos-jobs"), help="the directory for the record")
    return parser.parse_args()


async def _run(
    cluster: UpCluster, given: argparse.Namespace, fault_options: Sequence[FaultOption], length_s: float
) -> JobsRecord:
    async with sandbox_for(cluster) as sandbox:
        try:
            return await run(sandbox, fault_options, seed=given.seed, length_s=length_s, tell=_tell)
        finally:
            if (sandbox.directory / FILE).exists():
                shutil.copy(sandbox.directory / FILE, given.to / FILE)


def _tell(words: str) -> None:
    sys.stderr.write(f"{words}\n")


if __name__ == "__main__":
    sys.exit(main())
