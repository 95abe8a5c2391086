"""The user's app: modules with handlers and jobs.

The worker's process never imports the app; only separate processes do.
"""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from shardclock import installed_apps
from shardclock_server.jobs.spec import InvalidJob, JobSpec, check_rule
from shardclock_server.workers.handler import HandlerSpec
from shardclock_server.workers.interpreter import Interpreter, UnfitInterpreter
from shardclock_server.workers.settings import WorkerSettings

IMPORT_S = 60.0
OUTPUT_CHARS_MAX = 300


class AppRefused(Exception):
    """The app can't be used; the message is a sentence with the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class App:
    """The modules of an app, and the handlers and jobs that they declare.

    shape:   modules    names, separated by commas
             directory  Python also searches this directory for the modules
             left_out   modules with handlers or jobs that the app's modules import, and that the app does not contain
             python     runs the app's processes; None: the worker's Python
    """

    modules: str
    directory: str
    handlers: tuple[HandlerSpec, ...]
    jobs: tuple[JobSpec, ...] = ()
    python: Interpreter | None = None
    left_out: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Convert the app to JSON for another process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the text of `to_json`."""
        described = json.loads(text)
        python = Interpreter(**described["python"]) if described["python"] else None
        return cls(
            described["modules"], described["directory"], _handlers_of(described), _jobs_of(described), python,
            tuple(described["left_out"]),
        )  # fmt: skip


NO_APP = App("", "", ())


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """The configuration of a worker at its start."""

    settings: WorkerSettings
    app: App


def modules_of(named: str | None) -> str:
    """Return `named`, or, without a name, the modules that installed packages declare as entry points."""
    return named or ",".join(installed_apps())


def find_app(modules: str, directory: Path, *, python: str | None = None) -> App:
    """Import an app in a separate process, and return the app with its handlers and jobs.

    shape:   without `modules`, the app consists of the modules that installed packages of `python` declare as entry
             points
    errors:  AppRefused  the app can't be imported, declares no handler and no job, or has an invalid declaration; or
                         `python` can't run it
    """
    try:
        named = Interpreter.named(python) if python is not None else None
    except UnfitInterpreter as error:
        raise AppRefused(str(error)) from None
    runs = named or Interpreter.ours()
    command = runs.command("shardclock.executor.describe", modules, str(directory))
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            env=runs.environment(),
            timeout=IMPORT_S,
            check=False,
            # Ctrl-C in the terminal must reach only this process, which then kills the importing process
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        raise AppRefused(
            f"app {modules!r} was not imported within {IMPORT_S:g} s: its import must not work or wait"
        ) from None
    try:
        described = json.loads(done.stdout)
        if "refused" in described:
            raise AppRefused(described["refused"])
        jobs = _checked(_jobs_of(described))
        left_out = tuple(described["left_out"])
        return App(described["modules"], str(directory), _handlers_of(described), jobs, named, left_out)
    except InvalidJob as refusal:
        raise AppRefused(str(refusal)) from None
    except (ValueError, KeyError, TypeError) as error:
        how = (
            f"it ended with code {done.returncode}"
            if done.returncode
            else f"its output is invalid: {str(error)[:OUTPUT_CHARS_MAX]}"
        )
        raise AppRefused(f"app {modules!r} can't be imported: {how}") from error


def _handlers_of(described: Mapping[str, Any]) -> tuple[HandlerSpec, ...]:
    return tuple(map(HandlerSpec.of, described["handlers"]))


def _checked(jobs: tuple[JobSpec, ...]) -> tuple[JobSpec, ...]:
    now = datetime.now(UTC)
    for job in jobs:
        check_rule(job, now=now)
    return jobs


def _jobs_of(described: Mapping[str, Any]) -> tuple[JobSpec, ...]:
    return tuple(map(JobSpec.of, described["jobs"]))
