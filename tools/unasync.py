"""Generate the synchronous clients from the async clients: python -m tools.unasync."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import unasync

from tests.support import ROOT

FOLDER = ROOT / "client" / "shardclock"
# asyncpg has no client without an event loop, so `sql/async_asyncpg.py` is not converted.
NAMES: Mapping[str, tuple[str, ...]] = {
    "http": ("sending", "many", "log", "operating", "processes", "tasks", "client"),
    "log": ("reading", "groups", "link", "member", "consuming", "batch", "leasing"),
    "sql": ("timers", "psycopg", "sqlalchemy"),
}
HEAD = "# `make docs` writes this file from {source}: change that file, and run `make docs`.\n"
REPLACED: Mapping[str, str] = {
    "AbstractAsyncContextManager": "AbstractContextManager",
    "AsyncBatch": "Batch",
    "AsyncBulk": "Bulk",
    "AsyncClient": "Client",
    "AsyncConnection": "Connection",
    "AsyncCursor": "Cursor",
    "AsyncDriver": "Driver",
    "AsyncSqlExecutor": "SqlExecutor",
    "AsyncHeld": "Held",
    "AsyncLeasedWork": "LeasedWork",
    "AsyncLink": "Link",
    "AsyncLog": "Log",
    "AsyncMany": "Many",
    "AsyncMember": "Member",
    "AsyncOperating": "Operating",
    "AsyncProcesses": "Processes",
    "AsyncPsycopg": "Psycopg",
    "AsyncRound": "Round",
    "AsyncSender": "Sender",
    "AsyncSqlalchemy": "Sqlalchemy",
    "AsyncTasks": "Tasks",
    "AsyncTimers": "Timers",
    "AsyncTries": "Tries",
    "AsyncTurn": "Turn",
    "AsyncWork": "Work",
    "aclose": "close",
    "aread": "read",
    "async_batch": "sync_batch",
    "async_consuming": "sync_consuming",
    "async_groups": "sync_groups",
    "async_keeping": "sync_keeping",
    "async_leasing": "sync_leasing",
    "async_link": "sync_link",
    "async_log": "sync_log",
    "async_many": "sync_many",
    "async_member": "sync_member",
    "async_operating": "sync_operating",
    "async_processes": "sync_processes",
    "async_reading": "sync_reading",
    "async_sending": "sync_sending",
    "async_tasks": "sync_tasks",
    "async_timers": "sync_timers",
    "async_timing": "sync_timing",
    "asynccontextmanager": "contextmanager",
    "asyncio": "time",
}


def read_files() -> dict[Path, str]:
    """Return the text of each generated file by its path."""
    return {path: text for folder, names in NAMES.items() for path, text in _read_folder(FOLDER / folder, names)}


def _read_folder(folder: Path, names: Sequence[str]) -> Iterator[tuple[Path, str]]:
    with tempfile.TemporaryDirectory(prefix="shardclock-test-") as scratch:
        source, target = Path(scratch) / "source", Path(scratch) / "target"
        source.mkdir()
        rule = unasync.Rule(f"{source}/", f"{target}/", additional_replacements=dict(REPLACED))
        for name in names:
            text = (folder / f"async_{name}.py").read_text(encoding="utf-8")
            (source / f"sync_{name}.py").write_text(HEAD.format(source=f"async_{name}.py") + text, encoding="utf-8")
        unasync.unasync_files([str(path) for path in sorted(source.iterdir())], [rule])
        for path in sorted(target.iterdir()):
            yield folder / path.name, _formatted(path, folder / path.name)


def _formatted(path: Path, final: Path) -> str:
    """Sort the renamed imports, and format lines that became shorter."""
    text = path.read_text(encoding="utf-8")
    for command in (["check", "--quiet", "--fix-only", "--select", "I", "-"], ["format", "-"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(final)],
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
