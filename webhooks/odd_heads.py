"""Read the head of an answer that breaks the rules of HTTP harmlessly: the delivery depends on its status.

curl, Go's net/http and httpx each accept other breaches. All of them are read alike here: the body is not parsed, and
the connection ends with the answer, so that nothing behind it can pass for the next one.
"""

import re
from dataclasses import dataclass

# The version may be any: a receiver that says 200 has accepted the delivery.
STATUS_LINE = re.compile(rb"\s*HTTP(?:/[0-9]+(?:\.[0-9]+)?)?[ \t]+([0-9]{3})(?=\s)", re.IGNORECASE)
BEGIN = b"HTTP"
# Some servers write a carriage return too many. A bound, so that the search for an end looks at few bytes again.
END = re.compile(rb"\n\r{0,8}\n")
END_BYTES = 10
NEEDED = ("retry-after", "location")
SWITCHING = 101  # the one 1xx that is final


class NoAnswer(Exception):
    """Refuse bytes that are no answer of HTTP, or interim answers without end."""


@dataclass(frozen=True, slots=True)
class OddHead:
    """The final head of an answer: its status, the headers that a sender needs, and the bytes behind it."""

    status: int
    headers: dict[str, str]
    rest: bytes


def read_odd_head(came: bytes, *, interim_max: int) -> OddHead | None:
    """Find the final head in all that came since the request was sent; None: its end has not come yet.

    errors:  NoAnswer  it will never come
    """
    start = 0
    for _ in range(interim_max + 1):
        line = STATUS_LINE.match(came, start)
        if line is None:
            _require_begin(came[start:].lstrip())
            return None
        end = END.search(came, line.end())
        if end is None:
            return None
        status = int(line[1])
        if status == SWITCHING or not 100 <= status < 200:
            return OddHead(status, _headers_of(came[line.end() : end.start()]), came[end.end() :])
        start = end.end()
    raise NoAnswer


def read_cut_head(came: bytes, *, interim_max: int) -> OddHead | None:
    """Find the final head when the connection has ended: its status line is whole, and more may be missing.

    shape:   None: the status line isn't whole
    errors:  NoAnswer  as of `read_odd_head`
    """
    whole_lines = came[: came.rfind(b"\n") + 1]
    return read_odd_head(whole_lines + b"\n\n", interim_max=interim_max)


def _require_begin(text: bytes) -> None:
    begin = text[: len(BEGIN)].upper()
    if b"\n" in text or not BEGIN.startswith(begin):
        raise NoAnswer


def _headers_of(lines: bytes) -> dict[str, str]:
    found = dict[str, str]()
    for line in lines.split(b"\n"):
        name, _, value = line.decode("latin-1").partition(":")
        if (name := name.strip().lower()) in NEEDED:
            found.setdefault(name, value.strip())
    return found
