"""The environment variables of a Python child process, without the shell's settings for another Python."""

import os
import sysconfig
from collections.abc import Mapping

# Variables that break a Python child process. Ray needs docstrings, which PYTHONOPTIMIZE removes, and fails if a
# warning is an error. The other variables make a process print text, or wait for commands before it exits.
FOR_ANOTHER_PYTHON = frozenset(
    {
        "PYTHONOPTIMIZE",
        "PYTHONWARNINGS",
        "PYTHONSTARTUP",
        "PYTHONINSPECT",
        "PYTHONVERBOSE",
        "PYTHONDEBUG",
        "PYTHONPROFILEIMPORTTIME",
    }
)


def for_our_python(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for a child with this process's Python."""
    return for_python(sysconfig.get_path("purelib"), environment)


def for_python(library: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Remove the variables that change the behaviour of Python's interpreter.

    Modules in PYTHONPATH are searched after the installed libraries.

    shape:   `library` is the folder of the libraries of the child's Python
    """
    kept = {name: value for name, value in environment.items() if name not in FOR_ANOTHER_PYTHON}
    if given := kept.get("PYTHONPATH"):
        kept["PYTHONPATH"] = os.pathsep.join([it for it in (library, given) if it])
    return kept
