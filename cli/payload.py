"""Read the JSON of `--payload` and similar options: JSON text, a file, or standard input."""

from shardclock_server.cli.file_text import STDIN, is_file, read_bytes
from shardclock_server.timers.payload import PAYLOAD_BYTES_MAX, read_json
from shardclock_server.timers.refusal import InvalidTimer, shortened

LINE_END_BYTES = 2  # The newline at the end of a file is not part of the payload.


def read_payload(text: str, *, option: str = "--payload") -> object:
    """Read an option's JSON: as text, as @FILE, or as - for standard input.

    errors:  InvalidTimer  the file can't be read, or Postgres can't store the JSON; the message names the option
    """
    try:
        return read_json(_content(text), bytes_max=PAYLOAD_BYTES_MAX)
    except InvalidTimer as refusal:
        raise InvalidTimer(f"{option} {refusal}") from None


def _content(text: str) -> str | bytes:
    if not is_file(text):
        return text
    try:
        content = read_bytes(text, bytes_max=PAYLOAD_BYTES_MAX + LINE_END_BYTES).rstrip(b"\r\n")
    except OSError as error:
        raise InvalidTimer(f"{shortened(text)} can't be read: {error.strerror}") from None
    if not content:
        raise InvalidTimer(
            f"{shortened(text)} is refused: {'standard input' if text in STDIN else 'the file'} is empty; write JSON"
        )
    return content
