"""The user's app: modules with handlers and jobs. It is imported in a process of its own, never here."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from shardclock import installed_apps
from shardclock_server.jobs.spec import InvalidJob, JobSpec, check_rule
from shardclock_server.workers.handler import HandlerSpec
from shardclock_server.workers.python_environment import for_our_python
from shardclock_server.workers.settings import WorkerSettings

IMPORT_S = 60.0
SAID_MAX = 300


class AppRefused(Exception):
    """The app can't be used; the message is a sentence that says why and what to do."""


@dataclass(frozen=True, slots=True)
class App:
    """The modules, with commas between them, the directory in which they are looked for too, and what they declare."""

    modules: str
    directory: str
    handlers: tuple[HandlerSpec, ...]
    jobs: tuple[JobSpec, ...] = ()

    def to_json(self) -> str:
        """Write it for another process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote."""
        said = json.loads(text)
        return cls(said["modules"], said["directory"], _handlers_of(said), _jobs_of(said))


NO_APP = App("", "", ())


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """What a worker is told when it starts."""

    settings: WorkerSettings
    app: App


def modules_of(named: str | None) -> str:
    """Return the app's modules: those that are named, else those that installed packages have as entry points."""
    return named or ",".join(installed_apps())


def find_app(modules: str, directory: Path) -> App:
    """Import an app in a process of its own, and learn which handlers and jobs it has.

    errors:  AppRefused  it can't be imported, declares nothing, or declares something wrong
    """
    command = [sys.executable, "-m", "shardclock.executor.describe", modules, str(directory)]
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, env=for_our_python(os.environ), timeout=IMPORT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise AppRefused(
            f"app {modules!r} was not imported within {IMPORT_S:g} s: does it work or wait while it is imported?"
        ) from None
    try:
        said = json.loads(done.stdout)
        if "refused" in said:
            raise AppRefused(said["refused"])
        return App(modules, str(directory), _handlers_of(said), _checked(_jobs_of(said)))
    except InvalidJob as refusal:
        raise AppRefused(str(refusal)) from None
    except (ValueError, KeyError, TypeError) as error:
        how = f"it ended with code {done.returncode}" if done.returncode else f"it said {str(error)[:SAID_MAX]}"
        raise AppRefused(f"app {modules!r} can't be imported: {how}") from error


def _handlers_of(said: Mapping[str, Any]) -> tuple[HandlerSpec, ...]:
    return tuple(map(HandlerSpec.of, said["handlers"]))


def _checked(jobs: tuple[JobSpec, ...]) -> tuple[JobSpec, ...]:
    now = datetime.now(UTC)
    for job in jobs:
        check_rule(job, now=now)
    return jobs


def _jobs_of(said: Mapping[str, Any]) -> tuple[JobSpec, ...]:
    return tuple(map(JobSpec.of, said["jobs"]))
