"""What `--payload` and the like mean: JSON text, a file with JSON, or standard input."""

from shardclock_server.cli.file_text import is_file, read_bytes
from shardclock_server.timers.payload import PAYLOAD_BYTES_MAX, read_json
from shardclock_server.timers.refusal import InvalidTimer, shortened

LINE_END_BYTES = 2  # of the last line: it is no part of the payload


def read_payload(text: str, *, option: str = "--payload") -> object:
    """Read the JSON that an option gives: as text, as @FILE, or as - for standard input.

    errors:  InvalidTimer  names the option: the file can't be read, or its JSON can't be stored
    """
    try:
        return read_json(_content(text), bytes_max=PAYLOAD_BYTES_MAX)
    except InvalidTimer as refusal:
        raise InvalidTimer(f"{option} {refusal}") from None


def _content(text: str) -> str | bytes:
    if not is_file(text):
        return text
    try:
        return read_bytes(text, bytes_max=PAYLOAD_BYTES_MAX + LINE_END_BYTES).rstrip(b"\r\n")
    except OSError as error:
        raise InvalidTimer(f"{shortened(text)} can't be read: {error.strerror}") from None
