"""A text that an option gives, or a file or standard input in its place: arguments are seen in process lists."""

import sys
from codecs import BOM_UTF8
from contextlib import nullcontext
from pathlib import Path

from shardclock_server.timers.refusal import Refusal, shortened

STDIN = ("-", "@-")
TEXT_BYTES_MAX = 8_192


def is_file(text: str) -> bool:
    """Say whether an option gives @FILE, or - for standard input, and not the text itself."""
    return text in STDIN or text.startswith("@")


def read_text(option: str, text: str) -> str:
    """Read the text that an option gives: as it is, from @FILE, or from - for standard input.

    shape:   what was read is not empty, and has no space at its ends
    errors:  Refusal  names the option and the file, and nothing that stands in it
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
    """Read the file that @FILE or - names, without a byte order mark at its beginning.

    shape:   at most one byte more than `bytes_max`, by which the caller sees that it is too long
    errors:  OSError  it can't be read
    """
    with nullcontext(sys.stdin.buffer) if text in STDIN else Path(text[1:]).open("rb") as file:
        return file.read(len(BOM_UTF8) + bytes_max + 1).removeprefix(BOM_UTF8)[: bytes_max + 1]
