"""Explain why bytes are not an HTTP request. The parser's own error names neither the header nor a correction."""

import re

from shardclock.api.codes import UNREADABLE
from shardclock.jsonb import NUL
from shardclock_server.gateway.requests.problems import Problem

# A header with a control character in its value; a tab is allowed.
BAD_VALUE = re.compile(rb"(?:^|\n)([!-9;-~]{1,100}):[^\r\n]*?([\x00-\x08\x0b\x0c\x0e-\x1f\x7f])")
TARGET = re.compile(rb"^[A-Z]+ [^\r\n]*[^\x00-\x7f]")
WITHOUT_PATH = re.compile(rb"^[A-Z]+ (?:https?://)?[^/ \r\n]+ HTTP/")


def answer_of(piece: bytes, reason: str) -> bytes:
    """Write the response to a piece that the parser has refused; the connection ends with this response."""
    answer = Problem(UNREADABLE, sentence_of(piece, reason), headers={"Connection": "close"}).answer()
    head = b"".join(name + b": " + value + b"\r\n" for name, value in answer.raw_headers)
    return b"HTTP/1.1 400 Bad Request\r\n" + head + b"\r\n" + bytes(answer.body)


def sentence_of(piece: bytes, reason: str) -> str:
    """Describe the fault, and quote the faulty header or line if the piece contains it."""
    if TARGET.match(piece):
        return "the path and the query have letters beyond ASCII; write them in UTF-8, as %XX"
    if WITHOUT_PATH.match(piece):
        return "the request target has no path; write it like /v1/timers"
    if found := BAD_VALUE.search(piece):
        name, is_nul = found[1].decode(), found[2] == b"\0"
        return f"{name} {NUL if is_nul else 'contains a control character, which no header may; leave it out'}"
    why = "".join(it if it.isprintable() else "?" for it in reason)
    return f"the request is not HTTP/1.1: {why[:1].lower()}{why[1:]}; send it as RFC 9112 requires"
