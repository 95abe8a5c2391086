"""The command line: `shardclock --help`.

Results go to stdout, as tables for people or, with `--json`, as JSON for programs. Everything else goes to stderr.

Exit codes: 0 done, or done before (such as an endpoint that was disabled already); 1 not done as asked (a refused line,
a timer that had fired already, a job that does not exist, a failed demo); 2 bad input or settings; 3 no answer from
Postgres or Ray; 4 the schema needs `shardclock migrate`; 5 the command has run, and its answer could not be written.

    program    runs a command; an error ends it with one line
    app        the program as Typer builds it
    version    the version of the program
    commands   the commands by name, imported on demand, with their `summaries`
    exits      errors and their exit codes
    options    options of several commands
    output     tables, JSON and messages
    streams    standard output and error; an answer that can't be written
    session    the database session of a command
    recording  the audit's record of each operator's command
    postgres_programs  Postgres's own programs, such as pg_dump

Each other module has a few commands (`run`, `schedule`, `verbs`) or code of several commands (`single` for one timer,
`bulk` for many). A command reads its options, calls a use case of `service` or a statement of `sql`, and prints the
result.
"""

import gc
import os
import sys
import warnings
from typing import NoReturn


def main() -> NoReturn:
    """Run `shardclock` with this process's arguments."""
    # Garbage collection during the imports took a fifth of a command's time, and freed nothing. `program` enables the
    # collector again after the command's import.
    gc.disable()
    _end_without_inspection()
    _search_pythonpath_last()
    try:
        # Warnings are for developers; a variable of the shell could turn each warning into an error.
        with warnings.catch_warnings(action="ignore"):
            if _has_local_host(sys.argv[1:]):
                from shardclock_server.cluster.host_process import start_local_host_ahead

                start_local_host_ahead()
            from shardclock_server.cli.program import run

            run()
    finally:
        gc.enable()


def _has_local_host(words: list[str]) -> bool:
    """Guess from the arguments whether `up` will run local keepers; a wrong guess costs some time."""
    if words[:1] != ["up"] or "--help" in words:
        return False
    is_local = "--local" in words or _setting("LOCAL") in {"1", "true"}
    return is_local or (not _setting("RAY_ADDRESS") and _setting("STANDBY") not in {"0", "false"})


def _setting(name: str) -> str:
    return os.environ.get(f"SHARDCLOCK_{name}", "").lower()


def _end_without_inspection() -> None:
    """Start again without PYTHONINSPECT, which ends every program with a traceback and exit code 1."""
    if sys.flags.inspect and os.environ.get("PYTHONINSPECT"):
        others = {name: value for name, value in os.environ.items() if name != "PYTHONINSPECT"}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], others)  # noqa: S606 - our own program


def _search_pythonpath_last() -> None:
    """Move PYTHONPATH to the end of the search path, so that an app's modules can't replace a library."""
    given = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]  # noqa: PTH100 - pathlib loads slowly
    if given:
        sys.path[:] = [*(path for path in sys.path if os.path.abspath(path) not in given), *given]  # noqa: PTH100


__all__ = ["main"]
