"""Parse the signals of the database."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from shardclock_server.bpmn.step.signals import (
    ActivityCompleted,
    ActivityFailed,
    CancelAsked,
    ErrorThrown,
    Escalated,
    EventOccurred,
    Moved,
    Retried,
    Signal,
    VariablesSet,
)
from shardclock_server.sql.processes.signals import DueSignal

BEGIN = "begin"
CANCEL = "cancel"
# The kind of a signal that closes a wait later, because the wait's row was locked when the token left the node.
CLOSED = "closed"
CONTINUED = "continued"  # The kind of the signal by which an engine continues an unfinished step.
THROWN = "thrown"  # The kind of a BPMN signal, which all subscriptions to its name receive.
FIRED = "fired"  # The kind of a timer's signal, which has no content.


Content = Mapping[str, Any]

OF_INSTANCE: Mapping[str, Callable[[Content], Signal]] = {
    CANCEL: lambda _: CancelAsked(),
    "moved": lambda content: Moved(tuple(content["terminated"]), tuple(content["begun"])),
}
OF_TOKEN: Mapping[str, Callable[[int, Content], Signal]] = {
    "completed": lambda token, content: ActivityCompleted(token, content.get("variables", {})),
    "failed": lambda token, content: ActivityFailed(token, content["reason"]),
    "error": lambda token, content: ErrorThrown(
        token, content["code"], content.get("reason", ""), content.get("variables", {})
    ),
    "escalated": lambda token, content: Escalated(token, content["code"]),
    "retried": lambda token, _: Retried(token),
    "variables": lambda token, content: VariablesSet(token, content["variables"]),
}
OF_NODE = (FIRED, "happened")


class UnreadableSignal(ValueError):
    """No engine can process the signal."""


class UnknownKind(UnreadableSignal):
    """This release doesn't know the kind of the signal; perhaps only a newer release knows the kind."""


def content_of(taken: DueSignal) -> Content:
    """Parse a signal's JSON; return an empty object for a timer's signal, which has no JSON.

    errors:  UnreadableSignal
    """
    content = json.loads(taken.signal) if taken.signal is not None else {}
    if not isinstance(content, dict):
        raise UnreadableSignal("the signal is not a JSON object")
    return content


def kind_of(content: Content) -> str:
    """Return the kind of a signal."""
    return str(content.get("kind", FIRED))


def is_thrown(taken: DueSignal) -> bool:
    """Return whether a signal is for all subscriptions to its name instead of one instance."""
    if not taken.is_first or taken.signal is None or f'"{THROWN}"' not in taken.signal:
        return False
    try:
        return kind_of(content_of(taken)) == THROWN
    except UnreadableSignal:
        return False


def signal_of(taken: DueSignal, content: Content) -> Signal:
    """Convert a stored signal to a signal of the package `bpmn`.

    errors:  UnknownKind       this release does not know the kind; perhaps a newer release does.
             UnreadableSignal  no engine can process the signal.
    """
    kind = kind_of(content)
    read, read_for = OF_INSTANCE.get(kind), OF_TOKEN.get(kind)
    if not read and not read_for and kind not in OF_NODE:
        raise UnknownKind(f"this release knows no signal of the kind {kind[:60]!r}")
    try:
        if read:
            return read(content)
        if taken.token is None:
            raise UnreadableSignal(f"a signal of the kind {kind[:60]!r} must name a token")
        if read_for:
            return read_for(taken.token, content)
        if taken.node_id is None:
            raise UnreadableSignal(f"a signal of the kind {kind[:60]!r} must name a node")
        return EventOccurred(taken.token, taken.node_id, content.get("variables", {}))
    except (KeyError, TypeError) as error:
        raise UnreadableSignal(f"a signal of the kind {kind[:60]!r} lacks {error}") from None
