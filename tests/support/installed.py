"""Make Python treat this tree's server as an installed distribution."""

from __future__ import annotations

import tomllib
from pathlib import Path

from tests.support import ROOT


def tell_installed(folder: Path) -> None:
    """Write the entry points of the server into a folder of the Python path, as an installation does."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [
        line
        for group, points in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in points.items()))
    ]
    info = folder / f"shardclock-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: shardclock\nVersion: {project['version']}\n")
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
