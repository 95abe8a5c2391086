"""Read an option's text, a file that the option names, or standard input.

Secrets should come from a file or standard input, because process lists show arguments.
"""

import sys
from codecs import BOM_UTF8
from contextlib import nullcontext
from pathlib import Path

from shardclock_server.timers.refusal import Refusal, shortened

STDIN = ("-", "@-")
TEXT_BYTES_MAX = 8_192


def is_file(text: str) -> bool:
    """Return whether an option's text is @FILE, or - for standard input."""
    return text in STDIN or text.startswith("@")


def read_text(option: str, text: str) -> str:
    """Read an option's text: the text itself, @FILE, or - for standard input.

    shape:   a file's text is not empty; leading and trailing spaces are removed
    errors:  Refusal  the file can't be read; the message names the option and the file, and never shows the content
    """
    if not is_file(text):
        return text
    shown = f"{option} {shortened(text)}"
    try:
        content = read_bytes(text, bytes_max=TEXT_BYTES_MAX)
        read = content.decode().strip()
    except OSError as error:
        raise Refusal(f"{shown} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Refusal(f"{shown} is refused: it must be text") from None
    if not read or len(content) > TEXT_BYTES_MAX:
        raise Refusal(f"{shown} is refused: it must have 1 to {TEXT_BYTES_MAX:,} bytes")
    return read


def read_bytes(text: str, *, bytes_max: int) -> bytes:
    """Read the file of @FILE or -, without a byte order mark.

    shape:   at most `bytes_max` + 1 bytes, so that the caller can detect a longer file
    errors:  OSError  the file can't be read
    """
    with nullcontext(sys.stdin.buffer) if text in STDIN else Path(text[1:]).open("rb") as file:
        return file.read(len(BOM_UTF8) + bytes_max + 1).removeprefix(BOM_UTF8)[: bytes_max + 1]
