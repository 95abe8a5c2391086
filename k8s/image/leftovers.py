# ruff: noqa: INP001 - a separate program that belongs to no package
"""Print the installed distributions that are needed only for development.

One lock file pins the distributions for run time and for development. The image therefore installs all distributions,
with hashes, and then removes the development tools. The arguments are the extras that the image includes. The
distributions of Shardclock need not be installed.
"""

import re
import sys
import tomllib
from importlib.metadata import distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
OURS = (ROOT / "pyproject.toml", ROOT / "client" / "pyproject.toml")
KEPT = frozenset({"pip"})  # pip removes the other distributions, and is removed last


def main() -> None:
    """Print the names of the leftover distributions on one line, as arguments for `pip uninstall`."""
    needed = closure(*sys.argv[1:])
    found = {normal(dist.metadata["Name"]) for dist in distributions()}
    sys.stdout.write(" ".join(sorted(found - needed - KEPT)) + "\n")


def closure(*extras: str) -> set[str]:
    """Return Shardclock's distributions with these extras and all dependencies, for this interpreter and platform."""
    projects = [tomllib.loads(path.read_text(encoding="utf-8"))["project"] for path in OURS]
    needed = {normal(project["name"]) for project in projects}
    waiting = [Requirement(line) for project in projects for line in project["dependencies"]]
    for extra in extras:
        waiting += [Requirement(line) for line in projects[0]["optional-dependencies"][extra]]
    while waiting:
        asked = waiting.pop()
        name = normal(asked.name)
        if name in needed:
            continue
        needed.add(name)
        for line in distribution(name).requires or []:
            required = Requirement(line)
            its_extras = asked.extras or {""}
            if required.marker is None or any(required.marker.evaluate({"extra": extra}) for extra in its_extras):
                waiting.append(required)
    return needed


def normal(name: str) -> str:
    """Normalize a name for comparisons."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main()
