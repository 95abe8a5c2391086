"""What `--payload` means: JSON text, a file with JSON, or standard input."""

import sys
from pathlib import Path

from timers.payload import PAYLOAD_BYTES_MAX, read_json
from timers.refusal import InvalidTimer, shortened

STDIN = ("-", "@-")


def read_payload(text: str) -> object:
    """Read the JSON that an option gives: as text, as @FILE, or as - for standard input.

    errors:  InvalidTimer  names the option: the file can't be read, or its JSON can't be stored
    """
    try:
        return read_json(_content(text), bytes_max=PAYLOAD_BYTES_MAX)
    except InvalidTimer as refusal:
        raise InvalidTimer(f"--payload {refusal}") from None


def _content(text: str) -> str | bytes:
    if text not in STDIN and not text.startswith("@"):
        return text
    # One byte more than is allowed, and two for the end of the last line: a longer text will then be refused.
    most = PAYLOAD_BYTES_MAX + 3
    try:
        if text in STDIN:
            return sys.stdin.buffer.read(most).rstrip(b"\r\n")
        with Path(text[1:]).open("rb") as file:
            return file.read(most).rstrip(b"\r\n")
    except OSError as error:
        raise InvalidTimer(f"{shortened(text)} can't be read: {error.strerror}") from None
