"""Read what a signal in the database says."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from shardclock_server.bpmn.step.signals import (
    CancelAsked,
    Completed,
    ErrorThrown,
    Escalated,
    Failed,
    Happened,
    Moved,
    Retried,
    Signal,
    VariablesSet,
)
from shardclock_server.sql.processes.signals import DueSignal

BEGIN = "begin"
CANCEL = "cancel"
CLOSED = "closed"  # what somebody had locked as its token went: it is closed now
CONTINUED = "continued"  # what an engine sends to an instance whose step it has cut
THROWN = "thrown"  # a signal of BPMN, which an engine sends to all that wait for it
FIRED = "fired"  # the kind of a timer's signal, which says nothing


Said = Mapping[str, Any]

OF_INSTANCE: Mapping[str, Callable[[Said], Signal]] = {
    CANCEL: lambda _: CancelAsked(),
    "moved": lambda said: Moved(tuple(said["terminated"]), tuple(said["begun"])),
}
OF_TOKEN: Mapping[str, Callable[[int, Said], Signal]] = {
    "completed": lambda token, said: Completed(token, said.get("variables", {})),
    "failed": lambda token, said: Failed(token, said["reason"]),
    "error": lambda token, said: ErrorThrown(token, said["code"], said.get("reason", ""), said.get("variables", {})),
    "escalated": lambda token, said: Escalated(token, said["code"]),
    "retried": lambda token, _: Retried(token),
    "variables": lambda token, said: VariablesSet(token, said["variables"]),
}
OF_NODE = (FIRED, "happened")


class Unreadable(ValueError):
    """A signal says what no engine can take."""


class UnknownKind(Unreadable):
    """A signal is of a kind that this release doesn't know; a newer one may."""


def said_by(taken: DueSignal) -> Said:
    """Read a signal's JSON; that of a timer is empty.

    errors:  Unreadable
    """
    said = json.loads(taken.signal) if taken.signal is not None else {}
    if not isinstance(said, dict):
        raise Unreadable("the signal is no object")
    return said


def kind_of(said: Said) -> str:
    """Tell what kind a signal is of."""
    return str(said.get("kind", FIRED))


def is_thrown(taken: DueSignal) -> bool:
    """Say whether a signal is for all that wait for its name, and not for one instance."""
    if not taken.is_first or taken.signal is None or f'"{THROWN}"' not in taken.signal:
        return False
    try:
        return kind_of(said_by(taken)) == THROWN
    except Unreadable:
        return False


def signal_of(taken: DueSignal, said: Said) -> Signal:
    """Tell what has happened to an instance.

    errors:  UnknownKind  leave it to a newer release
             Unreadable   no engine can take it
    """
    kind = kind_of(said)
    read, read_for = OF_INSTANCE.get(kind), OF_TOKEN.get(kind)
    if not read and not read_for and kind not in OF_NODE:
        raise UnknownKind(f"this release knows no signal of the kind {kind[:60]!r}")
    try:
        if read:
            return read(said)
        if taken.token is None:
            raise Unreadable(f"a signal of the kind {kind[:60]!r} is for a token, and names none")
        if read_for:
            return read_for(taken.token, said)
        if taken.node_id is None:
            raise Unreadable(f"a signal of the kind {kind[:60]!r} is for a node, and names none")
        return Happened(taken.token, taken.node_id, said.get("variables", {}))
    except (KeyError, TypeError) as error:
        raise Unreadable(f"a signal of the kind {kind[:60]!r} lacks {error}") from None
