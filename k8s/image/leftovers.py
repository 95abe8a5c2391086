# ruff: noqa: INP001 - a program of its own, in no package
"""Print the installed distributions that a project doesn't need at run time: the tools for its development.

The lock pins both kinds in one file, so the image installs all of them, with hashes, and then removes these.
"""

import re
import sys
from importlib.metadata import distribution, distributions

from packaging.requirements import Requirement

KEPT = frozenset({"pip"})  # removes the others, and is removed last


def main() -> None:
    """Print them on one line, for `pip uninstall`."""
    needed = closure(sys.argv[1])
    found = {normal(dist.metadata["Name"]) for dist in distributions()}
    sys.stdout.write(" ".join(sorted(found - needed - KEPT)) + "\n")


def closure(project: str) -> set[str]:
    """Return a project's requirements and theirs, for this interpreter and platform."""
    needed: set[str] = set()
    waiting = [Requirement(project)]
    while waiting:
        asked = waiting.pop()
        name = normal(asked.name)
        if name in needed:
            continue
        needed.add(name)
        for line in distribution(name).requires or []:
            required = Requirement(line)
            extras = asked.extras or {""}
            if required.marker is None or any(required.marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(required)
    return needed


def normal(name: str) -> str:
    """Normalize a name for comparisons."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main()
