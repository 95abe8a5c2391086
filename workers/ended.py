"""Say in one sentence how a process of the user's code has ended: from Ray's error, or from its exit code."""

import re
import signal

from shardclock.reason import one_line

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
FRAME = '  File "'  # begins each frame of a traceback
IN_CREATION = "raised in its creation task"
EXIT_CODE = re.compile(r"exits? with an exit code (\d+)")
SIGNAL = re.compile(r"receives? a (SIG[A-Z]+)")
# Ray lost the connection, and no more is known: os._exit, SIGKILL and SIGSEGV all look like this.
SILENT = "connection error code 2"
UNKNOWN = "without an exit code: by os._exit, a signal such as SIGKILL or SIGSEGV, or too little memory"
# What comes before it describes the actor.
DETAILS = ("Worker exit detail: ", "The actor is dead because ")


def has_ended(text: str) -> bool:
    """Say, from the text of Ray's error, whether Ray has seen the process end, or never begin.

    Otherwise it may live on where nobody reaches it, as on a node that is cut off.
    """
    text = COLOUR.sub("", text)
    return IN_CREATION in text or SILENT in text or bool(SIGNAL.search(text) or EXIT_CODE.search(text))


def sentence_of(text: str, *, whose: str) -> str:
    """Say how a process ended, or why it doesn't start, from the text of Ray's error.

    shape:   `whose` is the handler or the run; one printable line of at most 300 characters, without colours
    """
    process = f"the {whose}'s process"
    text = COLOUR.sub("", text)
    if FRAME in text:
        what = "does not start" if IN_CREATION in text else "failed"
        return one_line(f"{process} {what}: {_exception_of(text)}")
    if found := SIGNAL.search(text) or EXIT_CODE.search(text):
        how = found[1] if found.re is SIGNAL else f"exit code {found[1]}"
        return f"{process} ended: {how}"
    if SILENT in text:
        return f"{process} ended {UNKNOWN}"
    for before in DETAILS:
        text = text.rpartition(before)[2]
    text = text.strip().removesuffix(".")
    return one_line(f"{process} ended: {text}" if text else f"{process} ended")


def sentence_of_exit(code: int, *, whose: str) -> str:
    """Say how a child of the worker ended, from its exit code, which is below 0 for a signal."""
    how = f"exit code {code}" if code >= 0 else _signal_of(-code)
    if code == -signal.SIGKILL:
        how += ", by the kernel if memory is short, or by an operator"
    return f"the {whose}'s process ended: {how}"


def _signal_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _exception_of(text: str) -> str:
    """Return the exception below a traceback: what follows the indented lines of its last frame."""
    lines = text[text.rindex(FRAME) :].splitlines()[1:]
    while lines and lines[0].startswith(" "):
        del lines[0]
    return " ".join(lines) or text.splitlines()[-1]
