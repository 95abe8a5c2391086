"""Write the client without an event loop from the one that has one: python -m tests.support.unasync."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import unasync

from tests.support import ROOT

FOLDER = ROOT / "client" / "shardclock" / "http"
NAMES = ("sending", "client")
HEAD = "# Written by `make docs` from {source}: change that, and write this anew.\n"
REPLACED: Mapping[str, str] = {
    "AsyncBulk": "Bulk",
    "AsyncClient": "Client",
    "AsyncSender": "Sender",
    "AsyncTries": "Tries",
    "aclose": "close",
    "aread": "read",
    "async_sending": "sync_sending",
    "asynccontextmanager": "contextmanager",
    "asyncio": "time",
}


def read_files() -> dict[Path, str]:
    """Write the text of each file, by its path."""
    with tempfile.TemporaryDirectory(prefix="shardclock-test-") as folder:
        source, target = Path(folder) / "source", Path(folder) / "target"
        source.mkdir()
        rule = unasync.Rule(f"{source}/", f"{target}/", additional_replacements=dict(REPLACED))
        for name in NAMES:
            text = (FOLDER / f"async_{name}.py").read_text(encoding="utf-8")
            (source / f"sync_{name}.py").write_text(HEAD.format(source=f"async_{name}.py") + text, encoding="utf-8")
        unasync.unasync_files([str(path) for path in sorted(source.iterdir())], [rule])
        return {FOLDER / path.name: _formatted(path) for path in sorted(target.iterdir())}


def _formatted(path: Path) -> str:
    """Sort the imports again, whose names have changed, and break the lines again, which are shorter."""
    text = path.read_text(encoding="utf-8")
    for command in (["check", "--quiet", "--fix-only", "--select", "I", "-"], ["format", "-"]):
        name = str(FOLDER / path.name)
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", name],
            input=text,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        text = done.stdout
    return text


def main() -> None:
    """Write all files."""
    for path, text in read_files().items():
        path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path} is written\n")


if __name__ == "__main__":
    main()
