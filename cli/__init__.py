"""The command line: `shardclock --help`.

Results go to stdout, as tables for people or, with `--json`, for programs; everything else goes to stderr. Exit codes:
0 done, or so already (an endpoint that was disabled before); 1 not done as asked (a refused line, a timer that had
fired already, a demo that failed); 2 bad input or settings; 3 no answer from Postgres or Ray; 4 the schema needs
`shardclock migrate`; 5 the command has run, and its answer could not be written.

    app       the program
    commands  its commands by their names, loaded when they are asked for
    exits     its errors and their exit codes
    options   the options that several commands share
    output    tables, JSON and messages
    streams   standard output and error, and an answer that can't be written
    session   the database session of a command
    recording a record in the audit for each act of an operator

Every other module holds a few commands (`run`, `schedule`, `verbs` …), or what several of them need (`single` for one
timer, `bulk` for many). A command reads its options, calls a use case of `service` or a statement of `sql`, and prints
the result.
"""

import gc
import os
import sys
import warnings
from typing import NoReturn


def main() -> NoReturn:
    """Run `shardclock` with this process's arguments."""
    # Nothing that modules make while they are loaded is garbage: to look for it took a fifth of a command's time. The
    # program enables it again, when its command is loaded.
    gc.disable()
    _end_without_inspection()
    _search_pythonpath_last()
    try:
        # Warnings are for developers, and a shell may make each of them an error.
        with warnings.catch_warnings(action="ignore"):
            if _runs_local(sys.argv[1:]):
                from shardclock_server.cluster.host_process import start_local_host_ahead

                start_local_host_ahead()
            from shardclock_server.cli.app import run

            run()
    finally:
        gc.enable()


def _runs_local(words: list[str]) -> bool:
    """Guess whether this is `up --local`; a wrong guess costs time alone, because `up` reads the settings."""
    is_named = os.environ.get("SHARDCLOCK_LOCAL", "").lower() in {"1", "true"}
    return words[:1] == ["up"] and "--help" not in words and (is_named or "--local" in words)


def _end_without_inspection() -> None:
    """Start anew without PYTHONINSPECT, with which Python ends every program by a traceback and exit code 1."""
    if sys.flags.inspect and os.environ.get("PYTHONINSPECT"):
        others = {name: value for name, value in os.environ.items() if name != "PYTHONINSPECT"}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], others)  # noqa: S606 - our own program


def _search_pythonpath_last() -> None:
    """Find an app's modules on PYTHONPATH, and no module there that has the name of a library."""
    given = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]  # noqa: PTH100 - pathlib loads slowly
    if given:
        sys.path[:] = [*(path for path in sys.path if os.path.abspath(path) not in given), *given]  # noqa: PTH100


__all__ = ["main"]
