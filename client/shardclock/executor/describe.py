"""Print an app's handlers and jobs as JSON.

This is a separate program, because an import of user code may end the process.
"""

import json
import os
import sys

from shardclock import InvalidHandler, describe, describe_jobs, find_declared, installed_apps
from shardclock.app import left_out_of
from shardclock.executor.importing import search_first


def main(modules: str, directory: str) -> int:
    """Print one JSON object: `modules`, `handlers`, `jobs` and `left_out`, or `refused` with a sentence.

    Without `modules` the app has the modules that installed packages name.
    """
    # The user's code may print: its output goes to stderr, so that it does not mix with the JSON.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    search_first(directory)
    json.dump(_describe(modules or ",".join(installed_apps())), answer)
    answer.flush()
    return 0


def _describe(modules: str) -> dict[str, object]:
    if not modules:
        return {"refused": "no installed package names an app; name its modules with --app"}
    try:
        found = find_declared(modules.split(","))
    except InvalidHandler as error:
        return {"refused": str(error)}
    return {
        "modules": modules,
        "handlers": describe(found.handlers.values()),
        "jobs": describe_jobs(found.jobs.values()),
        "left_out": left_out_of(found),
    }


if __name__ == "__main__":
    code = main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)  # a normal exit could hang: it waits for the threads of the user's code
