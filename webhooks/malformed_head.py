"""Read the head of an answer that breaks HTTP's rules in a harmless way, because a delivery needs only the status.

curl, Go's net/http and httpx each accept different violations; this module accepts all violations that one of them
accepts. The body is not parsed, and the connection is closed after the answer, so later bytes can't be taken for the
next answer.
"""

import re
from dataclasses import dataclass

# Any version is accepted, because a receiver that answers 200 has accepted the delivery.
STATUS_LINE = re.compile(rb"\s*HTTP(?:/[0-9]+(?:\.[0-9]+)?)?[ \t]+([0-9]{3})(?=\s)", re.IGNORECASE)
BEGIN = b"HTTP"
# Some servers write surplus carriage returns. The limit keeps the search for the end of a head short.
END = re.compile(rb"\n\r{0,8}\n")
END_BYTES = 10
READ_HEADERS = ("retry-after", "location")
SWITCHING = 101  # the only 1xx status that is a final answer


class NotHttpHead(Exception):
    """Refuse bytes that are not an HTTP answer, or too many interim answers."""


@dataclass(frozen=True, slots=True)
class MalformedHead:
    """The final head of an answer: its status, the headers that the sender needs, and the bytes after it."""

    status: int
    headers: dict[str, str]
    rest: bytes


def read_malformed_head(received: bytes, *, interim_max: int) -> MalformedHead | None:
    """Find the final head in all bytes since the request was sent; None: the head is not complete yet.

    errors:  NotHttpHead  the bytes can't become an HTTP answer
    """
    start = 0
    for _ in range(interim_max + 1):
        line = STATUS_LINE.match(received, start)
        if line is None:
            _require_begin(received[start:].lstrip())
            return None
        end = END.search(received, line.end())
        if end is None:
            return None
        status = int(line[1])
        if status == SWITCHING or not 100 <= status < 200:
            return MalformedHead(status, _headers_of(received[line.end() : end.start()]), received[end.end() :])
        start = end.end()
    raise NotHttpHead


def read_truncated_head(received: bytes, *, interim_max: int) -> MalformedHead | None:
    """Find the final head after the end of the connection; only its status line must be complete.

    shape:   None if the status line is incomplete
    errors:  NotHttpHead  as in `read_malformed_head`
    """
    whole_lines = received[: received.rfind(b"\n") + 1]
    return read_malformed_head(whole_lines + b"\n\n", interim_max=interim_max)


def _require_begin(text: bytes) -> None:
    begin = text[: len(BEGIN)].upper()
    if b"\n" in text or not BEGIN.startswith(begin):
        raise NotHttpHead


def _headers_of(lines: bytes) -> dict[str, str]:
    found = dict[str, str]()
    for line in lines.split(b"\n"):
        name, _, value = line.decode("latin-1").partition(":")
        if (name := name.strip().lower()) in READ_HEADERS:
            found.setdefault(name, value.strip())
    return found
