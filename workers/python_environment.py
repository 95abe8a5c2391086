"""The environment of the Python processes that we start: without a shell's settings for another Python."""

import os
import sysconfig
from collections.abc import Mapping

# Ray can't be loaded without docstrings, nor where a warning is an error. The others make a process print, or wait for
# commands when its work is done.
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
    """Leave out the variables that change how Python itself works; PYTHONPATH comes after the installed libraries."""
    kept = {name: value for name, value in environment.items() if name not in FOR_ANOTHER_PYTHON}
    if given := kept.get("PYTHONPATH"):
        kept["PYTHONPATH"] = os.pathsep.join([sysconfig.get_path("purelib"), given])
    return kept
