"""Say in plain words why no answer came: without an address, because the words are shown to the tenant."""

import errno
import ssl

import aiohttp

from shardclock_server.webhooks.answers import OWN_PAUSE_S, Fault, Retry, one_line
from shardclock_server.webhooks.guard import Connecting

Failure = aiohttp.ClientError | OSError | ValueError  # what an attempt may end with; TimeoutError is an OSError

# One sentence for a name that is unknown and for one that leads inside: otherwise a tenant could learn, name by name,
# what our own name servers know.
NO_ADDRESS = "forbidden address, or none: the host's name can't be resolved, or leads to an address that is not public"
NO_ROOM = "not sent: the sender has no socket left, or no thread to resolve the name"
WORDS = {
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: "connection reset",
    errno.EPIPE: "connection reset",
    errno.ECONNABORTED: "connection reset",
    errno.EHOSTUNREACH: "no route to the host",
    errno.ENETUNREACH: "no route to the host",
    errno.ETIMEDOUT: "timed out while connecting",
}
OTHER = "connection failed"
WORDS_OF_KIND = (
    (aiohttp.ClientConnectorDNSError, NO_ADDRESS),
    (aiohttp.ServerDisconnectedError, "connection closed without an answer"),
    (aiohttp.InvalidURL, "the URL can't be used"),
)
NOT_HTTP = "the answer is not HTTP, or its headers are too long"
NO_SOCKETS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})  # for nobody
# For this endpoint: an endpoint whose name server hangs must not be able to hold the others.
NO_WAY_OUT = frozenset({errno.EADDRNOTAVAIL, errno.EAGAIN})


def failure_of(error: Failure, noted: Connecting, *, duration_s: float) -> Retry:
    """Decide what follows an attempt that got no answer."""
    if noted.forbidden and not noted.opened:
        return Retry(NO_ADDRESS, duration_s, forbidden=True)
    if isinstance(error, OSError) and _cause(error).errno in NO_SOCKETS | NO_WAY_OUT:
        return no_room(OWN_PAUSE_S, duration_s=duration_s)
    return Retry(one_line(_words(error, duration_s)), duration_s)


def no_room(pause_s: float, *, duration_s: float = 0.0) -> Retry:
    """Return what is answered while this side can't send."""
    return Retry(NO_ROOM, duration_s, after_s=pause_s, hold_s=pause_s, fault=Fault.SENDER)


def is_everybodys(error: Failure) -> bool:
    """Say whether a failure would be the next endpoint's, too: there is no socket for anybody."""
    return isinstance(error, OSError) and _cause(error).errno in NO_SOCKETS


def _words(error: Failure, duration_s: float) -> str:
    match error:
        case aiohttp.ClientConnectorCertificateError(certificate_error=cause):
            return f"TLS certificate is not trusted: {getattr(cause, 'verify_message', None) or 'it does not fit'}"
        case aiohttp.ClientSSLError():
            return f"TLS handshake failed{_ssl_reason(_cause(error))}"
        case TimeoutError():
            doing = "while connecting" if isinstance(error, aiohttp.ConnectionTimeoutError) else "without an answer"
            return f"timed out {doing}, after {duration_s:.1f} s"
    for kind, words in WORDS_OF_KIND:
        if isinstance(error, kind):
            return words
    return WORDS.get(_cause(error).errno or 0, OTHER) if isinstance(error, OSError) else NOT_HTTP


def _cause(error: OSError) -> OSError:
    return error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error


def _ssl_reason(error: OSError) -> str:
    reason = error.reason if isinstance(error, ssl.SSLError) else None
    return f": {reason.replace('_', ' ').lower()}" if reason else ""
