"""Inject faults into a cluster under load, and judge its promises: python -m chaos --minutes 10.

exit:    0 valid, 1 a promise was broken, 2 unknown (nothing fired, or the recording is incomplete)
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import platform
import secrets
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import uvloop
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from chaos.checker import EXERCISED, PROCESSES, judge
from chaos.clusters import CLUSTERS, MODES, WORKERS, Cluster, ProcessCluster, UpCluster
from chaos.fault_options import DELIVERY_FAULTS, fault_options
from chaos.history import Bounds, History, patient
from chaos.history_files import save
from chaos.plan import Plan, draw
from chaos.report import report
from chaos.running import run
from chaos.sandbox import POSTGRES, sandbox_for
from chaos.webhooks import receiving

EXITS = {"valid": 0, "invalid": 1, "unknown": 2}
CALLS_PER_S = 25.0  # about 150 timers a second
INSTANCES_PER_S = 5.0
ENGINES = 2
APP = Path(__file__).with_name("app.py")
# After an invalid verdict, the rig computes a second verdict with the allowed lateness multiplied by this factor:
# clients and readers on the same machine also make the cluster slower.
DOUBLED = 2.0


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of run: the share of timers with a target, and whether the run has process instances.

    shape:   `least` maps the length of a run in minutes to its minimum numbers of faults, firings and deliveries; the
             longest length is first
    """

    least: Mapping[int, Bounds]
    exercised: frozenset[str]
    targeted: float = 0.0
    webhooks: bool = False
    instances: bool = True


HOUR = Bounds(kills_min=200, freezes_min=30, cuts_min=30, fires_min=300_000)
TEN_MINUTES = Bounds(kills_min=30, freezes_min=5, cuts_min=5, fires_min=20_000)
KINDS = {
    # Deliveries cost more processor time than timers, so few timers have a target.
    "all": Kind(
        {
            60: replace(HOUR, attempts_min=5_000, instances_min=10_000),
            10: replace(TEN_MINUTES, attempts_min=500, instances_min=1_500),
        },
        EXERCISED | PROCESSES,
        targeted=0.05,
    ),
    "timers": Kind(
        {60: HOUR, 10: TEN_MINUTES},
        EXERCISED - {"S10"},
        instances=False,
    ),
    "deliveries": Kind(
        {10: Bounds(kills_min=200, fires_min=10_000, attempts_min=5_000)},
        EXERCISED | PROCESSES,
        targeted=0.5,
        webhooks=True,
    ),
}


def main() -> int:
    """Read the arguments, execute the run, and write the report."""
    given = _arguments()
    kind, length_s = KINDS[given.of], given.minutes * 60
    instances_per_s = given.instances_per_s if kind.instances else 0.0
    workers, engines = (WORKERS if kind.targeted else 0), (ENGINES if instances_per_s else 0)
    plan = draw(
        given.seed,
        length_s=length_s,
        calls_per_s=given.calls_per_s,
        fault_options=DELIVERY_FAULTS
        if given.of == "deliveries"
        else fault_options(given.cluster, length_s=length_s, workers=bool(workers), engines=bool(engines)),
        targeted=kind.targeted,
        webhooks=kind.webhooks,
        instances_per_s=instances_per_s,
    )
    again = (
        f"python -m chaos --of {given.of} --cluster {given.cluster} --minutes {given.minutes:g}"
        f" --calls-per-s {given.calls_per_s:g} --instances-per-s {given.instances_per_s:g} --seed {given.seed}"
    )
    _tell(f"to repeat this run: {again}")
    given.to.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="sc-") as directory,
        (given.to / "cluster.log").open("wb") as log,
        _bar() as bar,
    ):
        cluster: Cluster = (
            UpCluster(given.cluster, Path(directory), app=APP if workers else None, engines=engines, log=log)
            if given.cluster in MODES
            else ProcessCluster(4, workers=workers, engines=engines, log=log)
        )
        # Use the faster event loop, because all traffic with Postgres goes through the rig.
        history = uvloop.run(_run(plan, cluster, bar, bounds=_least(kind.least, given.minutes)))
    _tell("judging")
    gc.disable()  # The checker allocates millions of objects without cycles, so garbage collection would find nothing.
    history = patient(history, given.patience)
    exercised = kind.exercised if plan.instances else kind.exercised - PROCESSES
    verdict = judge(history, exercised=exercised)
    save(history, given.to)
    page = report(history, verdict, given.to, versions=_versions(given.cluster), repeat=again)
    for finding in verdict.findings:
        if finding.violations:
            _tell(f"{finding.promise} {finding.title}: {finding.violations} of {finding.cases}")
            for row in finding.shown:
                _tell(f"    {row}")
    if verdict.status == "invalid" and given.patience < DOUBLED:
        status = judge(patient(history, DOUBLED), exercised=exercised).status
        _tell(f"with {DOUBLED:g} times the allowed lateness: {status}")
    _tell(f"{verdict.status}: {page}")
    return EXITS[verdict.status]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="the length of the load with faults, in minutes")
    parser.add_argument(
        "--seed", type=int, default=secrets.randbelow(10**6), help="the seed of an earlier run, to repeat the run"
    )
    parser.add_argument(
        "--cluster",
        choices=CLUSTERS,
        default="standby",
        help="`shardclock up` with local processes, with Ray, or with both; or shards, workers and engines"
        " without `up`",
    )
    parser.add_argument("--calls-per-s", type=float, default=CALLS_PER_S, help="of all clients together")
    parser.add_argument(
        "--instances-per-s", type=float, default=INSTANCES_PER_S, help="process instances that start per second"
    )
    parser.add_argument(
        "--of",
        choices=KINDS,
        default="all",
        help="timers: no deliveries; deliveries: half of the timers have a target, and faults kill the delivering"
        " processes",
    )
    parser.add_argument("--to", type=Path, default=Path("build/chaos"), help="the directory for the report")
    parser.add_argument(
        "--patience", type=float, default=1.0, help="multiply the promised limits of lateness by this factor"
    )
    return parser.parse_args()


async def _run(plan: Plan, cluster: Cluster, bar: Progress, *, bounds: Bounds) -> History:
    async with sandbox_for(cluster) as sandbox, receiving(sandbox):
        ticking = asyncio.create_task(_tick(bar, plan.length_s))
        try:
            return await run(plan, sandbox, bounds=bounds, tell=bar.console.print)
        finally:
            ticking.cancel()


def _least(of: Mapping[int, Bounds], minutes: float) -> Bounds:
    return next((bounds for least, bounds in of.items() if minutes >= least), Bounds())


async def _tick(bar: Progress, length_s: float) -> None:
    task = bar.add_task("injecting faults", total=length_s)
    while True:
        await asyncio.sleep(1.0)
        bar.advance(task)


def _bar() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True, highlight=False), transient=True)


def _versions(cluster: str) -> dict[str, object]:
    return {
        "cluster": cluster,
        "Postgres": POSTGRES,
        "Ray": version("ray") if cluster in ("ray", "standby") else "not used",
        "Python": platform.python_version(),
        "cores": os.cpu_count(),
    }


def _tell(words: str) -> None:
    sys.stderr.write(f"{words}\n")


if __name__ == "__main__":
    sys.exit(main())
