"""Compress static files and shared pages for browsers that accept gzip.

A page for one viewer, such as a page with a new secret, is never compressed. The length of a compressed page would
reveal whether text from the URL occurs in the secret.
"""

import gzip

from starlette.requests import Request

LEVEL = 6
GZIP = {"Content-Encoding": "gzip"}


def compressed(body: bytes) -> bytes:
    """Compress a body; equal bodies give equal compressed bytes."""
    return gzip.compress(body, LEVEL, mtime=0)


def accepts_gzip(request: Request) -> bool:
    """Return whether the request accepts gzip; a quality of zero means that gzip is not accepted."""
    for entry in request.headers.get("Accept-Encoding", "").lower().split(","):
        coding, _, quality = entry.partition(";")
        if coding.strip() == "gzip":
            return quality.strip().replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
