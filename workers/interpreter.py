"""Find the Python that runs the user's code: the server's own Python, or the Python of another environment.

In another environment only the client must be installed, in the server's version
(docs/decisions/0090-user-code-in-its-own-environment.md).
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Self

from shardclock_server.workers.python_environment import for_python

CLIENT = "shardclock-client"
OLDEST = (3, 11)
LOOK_S = 30.0
# This program checks the version of Python. The program uses only old syntax and old modules, so that an old Python can
# also run the check. The program removes the current directory from the path, so that a user's module can't replace a
# standard module.
LOOK = f"""
import sys
sys.path[:] = [path for path in sys.path if path]
import json
found = {{"python": list(sys.version_info[:2]), "client": None, "library": ""}}
if sys.version_info >= {OLDEST}:
    import sysconfig
    from importlib.metadata import PackageNotFoundError, version
    found["library"] = sysconfig.get_path("purelib")
    try:
        found["client"] = version("{CLIENT}")
    except PackageNotFoundError:
        pass
sys.stdout.write(json.dumps(found))
"""


class UnfitInterpreter(Exception):
    """The named Python can't run the user's code; the message is a sentence with the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python: the path of its program, and the folder of its installed packages."""

    program: str
    library: str

    @classmethod
    def ours(cls) -> Self:
        """Return the Python of this process."""
        return cls(sys.executable, sysconfig.get_path("purelib"))

    @classmethod
    def named(cls, name: str) -> Self:
        """Find the Python of another environment, by its path or by its name in PATH, and check it.

        errors:  UnfitInterpreter  the program does not exist, is not Python, is too old, or lacks the client
        """
        found = shutil.which(name)
        if found is None:
            raise UnfitInterpreter(
                f"--python {name!r} is no program; name the Python of the environment with your code, such as"
                " /srv/shop/.venv/bin/python"
            )
        program = os.path.abspath(found)  # noqa: PTH100 - `resolve` would follow the link out of the environment
        seen = _look(program)
        _check(program, tuple(seen["python"]), seen["client"])
        return cls(program, seen["library"])

    def command(self, module: str, *words: str) -> list[str]:
        """Return the command that runs a module of the client."""
        return [self.program, "-P", "-m", module, *words]

    def environment(self) -> dict[str, str]:
        """Return this process's environment without the variables that are meant for another Python."""
        return for_python(self.library, os.environ)


def _look(program: str) -> dict[str, Any]:
    command, environment = [program, "-c", LOOK], for_python("", os.environ)
    try:
        printed = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=environment,
            timeout=LOOK_S,
            check=False,
            start_new_session=True,  # Ctrl-C in the terminal must reach only this process, which then ends the program
        ).stdout
        found = json.loads(printed.splitlines()[-1])
        return {name: found[name] for name in ("python", "client", "library")}
    except subprocess.TimeoutExpired:
        why = f"the program does not answer within {LOOK_S:g} s"
    except OSError as error:
        why = error.strerror or str(error)
    except (IndexError, ValueError, KeyError, TypeError):
        why = "the program is no Python, or is broken"
    raise UnfitInterpreter(
        f"--python {program!r} can't be used: {why}; name the Python of the environment with your code"
    )


def _check(program: str, python: Sequence[int], client: str | None) -> None:
    ours = version(CLIENT)
    if tuple(python) < OLDEST:
        is_, least = ".".join(map(str, python)), ".".join(map(str, OLDEST))
        raise UnfitInterpreter(
            f"--python {program!r} is Python {is_}, and the client needs {least} or newer; make your environment with a"
            " newer one"
        )
    if client != ours:
        has = f"has {CLIENT} {client}, and this server needs {ours}" if client else f"lacks {CLIENT}"
        raise UnfitInterpreter(
            f"--python {program!r} {has}; install it there: `{program} -m pip install {CLIENT}=={ours}`"
        )
