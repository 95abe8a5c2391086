"""Measure Shardclock, its upper limit and its peers in one run: python -m benchmarks drain paced --rounds 3.

Without names, all cases run, which takes some hours. Scenarios measure only Shardclock, and print their figures as
JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import psutil
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import operating, parts, scenarios, sizing
from benchmarks.bench import Bench, bench
from benchmarks.cases import CASES
from benchmarks.cases.case import Case, NotForIt
from benchmarks.contenders.contender import Absent, Contender
from benchmarks.page import OtherMachine, read, write
from benchmarks.postgres import Server, Unusable, server
from benchmarks.results import Measured, Results, table
from charts.units import format_value

SCENARIOS: dict[str, Callable[[Bench], Coroutine[Any, Any, dict[str, object]]]] = {
    "claim-cost": scenarios.claim_cost,
    "idle": scenarios.idle,
    "locked": scenarios.locked,
    "metrics-cost": operating.metrics_cost,
    "forecast-cost": operating.forecast_cost,
    "scale-up": operating.scale_up,
    "spike": operating.spike,
    "cost": sizing.cost,
    "parts": parts.parts,
    "idle-shards": parts.idle_shards,
}
ROUNDS = 3


def main() -> int:
    """Run the cases and scenarios that the arguments name."""
    given = _arguments()
    for name in given.name:
        if name in SCENARIOS:
            with bench() as it:
                figures = asyncio.run(SCENARIOS[name](it))
            sys.stdout.write(json.dumps({"scenario": name, **figures}) + "\n")
            sys.stdout.flush()
    cases = _cases(given.name)
    if not cases:
        return 0
    try:
        with server(given.dsn) as postgres, _bar() as bar:
            asyncio.run(_measure(postgres, cases, given, bar))
    except (Unusable, OtherMachine) as refusal:
        sys.stderr.write(f"{refusal}\n")
        return 2
    except (KeyboardInterrupt, asyncio.CancelledError):
        sys.stderr.write("interrupted: the results of finished cases are written, and all databases are removed\n")
        return 130
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "name",
        nargs="*",
        type=_known,
        help=f"cases: {', '.join(CASES)} (default: all cases); scenarios: {', '.join(SCENARIOS)}",
    )
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help=f"the number of measurements of each contender ({ROUNDS})"
    )
    parser.add_argument("--only", help="only contenders whose name contains this text")
    parser.add_argument("--dsn", help="an empty database on the server to use; default: a temporary Postgres")
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each contender instead of tables")
    parser.add_argument("--to", type=Path, help="a folder to which the page, the pictures and the figures are written")
    given = parser.parse_args()
    if given.rounds < 1:
        parser.error(f"--rounds {given.rounds}: must be at least 1")
    if given.only:
        there = dict.fromkeys(it.name for case in _cases(given.name) for it in case.contenders())
        if not any(given.only in name for name in there):
            parser.error(f"--only {given.only}: no contender's name contains this text: {', '.join(there)}")
    return given


def _cases(names: Sequence[str]) -> Sequence[Case]:
    return [CASES[name] for name in names or CASES if name in CASES]


def _known(name: str) -> str:
    if name not in CASES and name not in SCENARIOS:
        raise argparse.ArgumentTypeError(f"{name!r} is unknown; use {', '.join([*CASES, *SCENARIOS])}")
    return name


async def _measure(postgres: Server, cases: Sequence[Case], given: argparse.Namespace, bar: Progress) -> None:
    # Ctrl-C and SIGTERM cancel the run, so that its databases are dropped, even if the shell ignores SIGINT.
    if (running := asyncio.current_task()) is not None:
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    await postgres.require_empty()
    machine = await _machine(postgres)
    results = Results(machine) if given.to is None else read(given.to, machine)
    for case in cases:
        results.begin(case, await _run(postgres))
        for turn in range(given.rounds):
            contenders = [it for it in case.contenders() if (given.only or "") in it.name]
            task = bar.add_task(f"{case.name} {turn + 1}/{given.rounds}", total=len(contenders))
            for contender in contenders:
                bar.update(task, description=f"{case.name} {turn + 1}/{given.rounds}: {contender.name}")
                await _take_part(postgres, case, contender, results)
                bar.console.print(_latest(case, results.of(case, contender)))
                bar.advance(task)
            bar.remove_task(task)
        _tell(case, results, as_json=given.json)
        if given.to is not None:
            sys.stderr.write(f"{write(results, given.to)}\n")


async def _take_part(postgres: Server, case: Case, contender: Contender, results: Results) -> None:
    measured = results.of(case, contender)
    if measured.note and not measured.figures:
        return
    async with postgres.database() as dsn:
        try:
            await contender.open(dsn)
            measured.add(await case.measure(contender))
        except Absent as why:
            measured.note = str(why)
        except NotForIt as why:
            measured.note = str(why)
            measured.add(why.figures)
        finally:
            await contender.close()


def _latest(case: Case, measured: Measured) -> str:
    figures = [figure for part in case.parts for figure in part.figures]
    told = [
        f"{it.title} {format_value(measured.figures[it.key][-1], it.unit)}"
        for it in figures
        if it.key in measured.figures
    ]
    return f"{case.name}: {measured.contender}: {', '.join(told) or measured.note}"


async def _machine(postgres: Server) -> dict[str, str]:
    memory = psutil.virtual_memory().total / 2**30
    return {
        "cores": f"{os.cpu_count()}, everything on them: Postgres, the workers, the clients",
        "memory": f"{memory:.0f} GiB",
        "Postgres": f"{await postgres.version()}, `fsync` and `synchronous_commit` on",
        "Python": platform.python_version(),
    }


async def _run(postgres: Server) -> str:
    commits = await postgres.commits()
    usual, seldom = (format_value(it, "s") for it in (median(commits), quantiles(commits, n=100)[-1]))
    return (
        f"{datetime.now().astimezone().date()}, on {_processor()}{postgres.about}. A commit took {usual}, and the"
        f" slowest of a hundred {seldom}"
    )


def _processor() -> str:
    told = Path("/proc/cpuinfo")
    lines = told.read_text().splitlines() if told.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{models[0] if models else platform.machine()}, {platform.system()} {platform.release()}"


def _tell(case: Case, results: Results, *, as_json: bool) -> None:
    rows = results.in_case(case.name)
    if as_json:
        for row in rows:
            told = {"case": case.name, "contender": row.contender, "version": row.version, **row.figures}
            sys.stdout.write(json.dumps(told | ({"note": row.note} if row.note else {})) + "\n")
    else:
        for part in case.parts:
            sys.stdout.write(f"\n{part.title or case.title}\n\n{table(part.figures, rows)}")
    sys.stdout.flush()


def _bar() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True, highlight=False), transient=True)


if __name__ == "__main__":
    sys.exit(main())
