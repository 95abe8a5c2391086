"""Describe in one sentence how a process of the user's code ended, from Ray's error or from its exit code."""

import re
import signal

from shardclock.reason import one_line

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
FRAME = '  File "'  # the first words of each frame of a traceback
IN_CREATION = "raised in its creation task"
EXIT_CODE = re.compile(r"exits? with an exit code (\d+)")
SIGNAL = re.compile(r"receives? a (SIG[A-Z]+)")
# Ray lost the connection and does not know the cause: for example os._exit, SIGKILL or SIGSEGV.
SILENT = "connection error code 2"
UNKNOWN = "without an exit code: by os._exit, a signal such as SIGKILL or SIGSEGV, or too little memory"
# In Ray's error, the cause follows these words; the text before them describes the actor.
DETAILS = ("Worker exit detail: ", "The actor is dead because ")


def ray_saw_end(text: str) -> bool:
    """Return whether Ray's error says that the process has ended or was never started.

    Otherwise the process may still be running, for example on a disconnected node.
    """
    text = COLOUR.sub("", text)
    return IN_CREATION in text or SILENT in text or bool(SIGNAL.search(text) or EXIT_CODE.search(text))


def describe_ray_error(text: str, *, owner: str) -> str:
    """Describe how a process ended, or why it doesn't start, from the text of Ray's error.

    shape:   `owner` is "handler" or "run"; the result is one printable line of at most 300 characters, without colours
    """
    process = f"the {owner}'s process"
    text = COLOUR.sub("", text)
    if FRAME in text:
        state = "does not start" if IN_CREATION in text else "failed"
        return one_line(f"{process} {state}: {_exception_of(text)}")
    if found := SIGNAL.search(text) or EXIT_CODE.search(text):
        how = found[1] if found.re is SIGNAL else f"exit code {found[1]}"
        return f"{process} ended: {how}"
    if SILENT in text:
        return f"{process} ended {UNKNOWN}"
    for before in DETAILS:
        text = text.rpartition(before)[2]
    text = text.strip().removesuffix(".")
    return one_line(f"{process} ended: {text}" if text else f"{process} ended")


def describe_exit_code(code: int, *, owner: str) -> str:
    """Describe how a child of the worker ended, from its exit code; a code below 0 is a signal."""
    how = f"exit code {code}" if code >= 0 else _signal_of(-code)
    if code == -signal.SIGKILL:
        how += ", by the kernel if memory is short, or by an operator"
    return f"the {owner}'s process ended: {how}"


def _signal_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _exception_of(text: str) -> str:
    """Return the exception at the end of a traceback: the lines after the indented lines of the last frame."""
    lines = text[text.rindex(FRAME) :].splitlines()[1:]
    while lines and lines[0].startswith(" "):
        del lines[0]
    return " ".join(lines) or text.splitlines()[-1]
