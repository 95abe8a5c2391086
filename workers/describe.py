"""Print an app's handlers and jobs as JSON: run by `workers.app`, in a process that may die of the user's code."""

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import shardclock
from shardclock import InvalidHandler, describe, describe_jobs, find_declared

OURS = frozenset(
    {
        "bpmn", "cli", "cluster", "coordinator", "demo", "embedded", "engine", "gateway", "jobs", "keepers", "metrics",
        "service", "shardclock", "shards", "sql", "timers", "webhooks", "workers",
    }
)  # fmt: skip


def main(modules: str, directory: str) -> int:
    """Print one JSON object: `handlers` and `jobs`, or `refused` with a sentence."""
    # What the user's code prints must not be taken for our answer.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.path.append(directory)  # at the end: a user's sql.py must not replace a package of ours
    json.dump(_said_of(modules, Path(directory)), answer)
    answer.flush()
    return 0


def _said_of(modules: str, directory: Path) -> dict[str, object]:
    apps = modules.split(",")
    if taken := _taken({app.strip().partition(":")[0].partition(".")[0] for app in apps}, directory):
        return {"refused": _refusal(modules, taken)}
    sys.modules.pop("workers", None)  # it is here because we run; if it comes again, the user's code has imported it
    before = set(sys.modules)
    try:
        found = find_declared(apps)
        said: dict[str, object] = {
            "handlers": describe(found.handlers.values()),
            "jobs": describe_jobs(found.jobs.values()),
        }
    except InvalidHandler as error:
        said = {"refused": str(error)}
    if taken := _taken(set(sys.modules) - before, directory):
        return {"refused": _refusal(modules, taken)}
    return said


def _taken(names: Iterable[str], directory: Path) -> str | None:
    """Find a name of ours that a module of the user has, too: an import of it gives ours."""
    if directory.resolve() in (Path(__file__).resolve().parents[1], Path(shardclock.__file__).resolve().parents[1]):
        return None  # a checkout: they are ours
    for name in sorted(OURS.intersection(names)):
        if (directory / f"{name}.py").is_file() or any((directory / name).glob("*.py")):
            return name
    return None


def _refusal(modules: str, name: str) -> str:
    return (
        f"app {modules!r} is refused: its module {name!r} has the name of a package of Shardclock, which is imported in"
        f" its place; give it another name, such as my_{name}"
    )


if __name__ == "__main__":
    code = main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)  # not by the interpreter's end: a thread that the user's code started could keep us for ever
