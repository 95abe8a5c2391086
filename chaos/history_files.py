"""Save a history for a later check or search, as JSON lines with one file for each kind of record."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, get_type_hints

from chaos.history import Bounds, History, Pending, Read
from chaos.history.calls import Call, HandlerCall, TimerRequest
from chaos.history.changes import (
    Commit,
    DeliveryDeleted,
    DeliveryWritten,
    HolderWritten,
    IncidentRaised,
    InstanceStepped,
    InstanceWritten,
    LeaderWritten,
    Recorded,
    TaskDeleted,
    TaskWritten,
    TimerDeleted,
    TimerWritten,
)
from chaos.history.faults import Fault

RUN = "run.json"
PACKED = 1  # gzip's level of compression; it shrinks commits to a fifth, and higher levels save little and take longer.


def save(history: History, directory: Path) -> None:
    """Write a history; replace the files of an earlier history in the directory.

    shape:  a record is a JSON object without the fields that have their default value; a row is a JSON array; the array
            of a change begins with the change's kind
    """
    directory.mkdir(parents=True, exist_ok=True)
    # This file is saved last, so a directory with this file is complete.
    (directory / RUN).unlink(missing_ok=True)
    counts = {}
    for kind, (name, _) in FILES.items():
        rows = getattr(history, kind)
        counts[kind] = len(rows)
        with _open(directory / name, "wt") as file:
            file.writelines(f"{_json(row)}\n" for row in (map(_tagged, rows) if kind == "commits" else rows))
    rest = {field.name: getattr(history, field.name) for field in fields(history) if field.name not in FILES}
    (directory / RUN).write_text(_json({**rest, "counts": counts}) + "\n", encoding="utf-8")


def load(directory: Path) -> History:
    """Read a saved history; sequences become tuples, moments are in UTC.

    errors:  FileNotFoundError     the directory has no history, or an incomplete history.
             ValueError, EOFError  a file was truncated
    """
    run = json.loads((directory / RUN).read_text(encoding="utf-8"))
    counts = run.pop("counts")
    for kind, (name, build) in FILES.items():
        with _open(directory / name, "rt") as file:
            run[kind] = [build(json.loads(line)) for line in file]
        if len(run[kind]) != counts[kind]:
            raise ValueError(f"{directory / name} has {len(run[kind])} of {counts[kind]} rows: it was truncated")
    return History(**run | {"bounds": Bounds(**run["bounds"]), "poisoned": frozenset(run["poisoned"])})


def _open(file: Path, mode: Literal["rt", "wt"]) -> IO[str]:
    if file.suffix == ".gz":
        return gzip.open(file, mode, compresslevel=PACKED, encoding="utf-8")
    return file.open(mode, encoding="utf-8")


def _json(row: object) -> str:
    return _ENCODER.encode(row)


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, frozenset):
        return sorted(value)
    assert isinstance(value, TimerRequest | Call | Fault | Bounds), f"{value!r} can't be part of a history"
    named = ((field, getattr(value, field.name)) for field in fields(value))
    return {field.name: content for field, content in named if content != field.default}


_ENCODER = json.JSONEncoder(default=_plain, separators=(",", ":"))


def _tagged(commit: Commit) -> tuple[object, ...]:
    return *commit[:-1], [(type(change).__name__, *change) for change in commit.changes]


def _record(kind: type) -> Callable[[dict[str, Any]], Any]:
    """Return the reader for a kind of record; the annotations of the record's class tell which fields are moments."""
    moments = _moments(kind)

    def read(row: dict[str, Any]) -> Any:
        for name in moments & row.keys():
            row[name] = datetime.fromisoformat(row[name]) if row[name] else None
        return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in row.items()})

    return read


def _moments(kind: type) -> set[str]:
    return {name for name, hint in get_type_hints(kind).items() if "datetime" in str(hint)}


def _row(kind: type[NamedTuple]) -> Callable[[list[Any]], Any]:
    moments = [place for place, name in enumerate(kind._fields) if name in _moments(kind)]

    def read(values: list[Any]) -> Any:
        for place in moments:
            if values[place] is not None:
                values[place] = datetime.fromisoformat(values[place])
        return kind(*values)

    return read


_TIMER_REQUEST, _CALL = _record(TimerRequest), _record(Call)
_CHANGED = (
    TimerWritten, TimerDeleted, Recorded, HolderWritten, DeliveryWritten, DeliveryDeleted, InstanceWritten,
    InstanceStepped, TaskWritten, TaskDeleted, IncidentRaised, LeaderWritten,
)  # fmt: skip
_CHANGES = {kind.__name__: _row(kind) for kind in _CHANGED}


def _call(row: dict[str, Any]) -> Call:
    call: Call = _CALL({**row, "timers": [_TIMER_REQUEST(timer) for timer in row.get("timers", ())]})
    return call


def _commit(values: list[Any]) -> Commit:
    lsn, xid, committed_at, changes = values
    made = tuple(_CHANGES[kind](rest) for kind, *rest in changes)
    return Commit(lsn, xid, datetime.fromisoformat(committed_at), made)


# The fields of a history that have a separate file, each with the reader of a row.
FILES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "calls": ("calls.ndjson", _call),
    "commits": ("commits.ndjson.gz", _commit),
    "reads": ("reads.ndjson", lambda values: Read(*values)),
    "faults": ("faults.ndjson", _record(Fault)),
    "pending": ("pending.ndjson", _row(Pending)),
    "attempts": ("attempts.ndjson", lambda values: HandlerCall(*values)),
}
