"""The command line: `shardclock --help`.

Results go to stdout, as tables for people or, with `--json`, as JSON for programs. Everything else goes to stderr.

The exit codes:

- 0: the work is done, or was done before; for example, an endpoint was disabled already.
- 1: the work is not done; for example, a line is refused, a timer has fired already, or a job does not exist.
- 2: an argument or a setting is invalid.
- 3: Postgres or Ray does not answer.
- 4: the schema needs `shardclock migrate`.
- 5: the command ran, but its output could not be written.

Modules that define no commands:

- `program` runs a command, and prints one line for an error that ends the command.
- `app` builds the program with Typer.
- `version` reads the program's version.
- `commands` lists the commands by name, with their summaries, and imports them on demand.
- `exits` maps errors to exit codes.
- `options` has the options that several commands share.
- `output` prints tables, JSON and messages.
- `streams` replaces standard output and standard error, and detects an answer that can't be written.
- `session` opens the database session of a command.
- `recording` writes the audit's record of each operator's command.
- `postgres_programs` runs Postgres's own programs, such as pg_dump.

The other modules define commands (such as `run`) or code that several commands share (such as `bulk`). A command
reads its options, calls a use case of `service` or a statement of `sql`, and prints the result.
"""

import gc
import os
import sys
import warnings
from typing import NoReturn

INTERRUPTED = 130  # the exit code after Ctrl-C


def main() -> NoReturn:
    """Run `shardclock` with this process's arguments."""
    # Garbage collection during the imports would take a fifth of a command's run time, and free nothing.
    # `program` enables the collector again after the command's import.
    gc.disable()
    _end_without_inspection()
    _search_pythonpath_last()
    try:
        # Users don't need Python's warnings, and an environment variable could turn each warning into an error.
        with warnings.catch_warnings(action="ignore"):
            if _has_local_host(sys.argv[1:]):
                from shardclock_server.cluster.host_process import start_local_host_ahead

                start_local_host_ahead()
            from shardclock_server.cli.program import run

            run()
    except KeyboardInterrupt:  # Ctrl-C during the imports
        sys.exit(INTERRUPTED)
    finally:
        gc.enable()


def _has_local_host(words: list[str]) -> bool:
    """Guess from the arguments whether `up` will run local keepers; a wrong guess only slows down the start."""
    if words[:1] != ["up"] or "--help" in words:
        return False
    is_local = "--local" in words or _setting("LOCAL") in {"1", "true"}
    return is_local or (not _setting("RAY_ADDRESS") and _setting("STANDBY") not in {"0", "false"})


def _setting(name: str) -> str:
    return os.environ.get(f"SHARDCLOCK_{name}", "").lower()


def _end_without_inspection() -> None:
    """Start the program again without PYTHONINSPECT.

    With PYTHONINSPECT, every command ends with a traceback and code 1.
    """
    if sys.flags.inspect and os.environ.get("PYTHONINSPECT"):
        others = {name: value for name, value in os.environ.items() if name != "PYTHONINSPECT"}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], others)  # noqa: S606 - our own program


def _search_pythonpath_last() -> None:
    """Move PYTHONPATH to the end of the search path, so that the modules of an app can't replace a library."""
    given = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]  # noqa: PTH100 - pathlib loads slowly
    if given:
        sys.path[:] = [*(path for path in sys.path if os.path.abspath(path) not in given), *given]  # noqa: PTH100


__all__ = ["INTERRUPTED", "main"]
