"""Describe why a request got no answer. The tenant reads the description, so it contains no address."""

import errno
import ssl

import aiohttp

from shardclock_server.webhooks.answer_classification import OWN_PAUSE_S, FaultSide, RetryDelivery, one_line
from shardclock_server.webhooks.guard import SocketCounts

Failure = aiohttp.ClientError | OSError | ValueError  # all errors of an attempt; TimeoutError is an OSError

# The same message for an unknown name and for a name with an internal address, so that a tenant can't discover internal
# names.
NO_ADDRESS = "no permitted address: the host's name can't be resolved, or leads to an address that is not public"
SENDER_EXHAUSTED = "not sent: the sender has no socket left, or no thread to resolve the name"
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
# The machine lacks sockets or memory, so a request to any endpoint fails.
NO_SOCKETS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
# These errors count for one endpoint, because a hanging name server must not stop the deliveries to other endpoints.
NO_PORT_OR_THREAD = frozenset({errno.EADDRNOTAVAIL, errno.EAGAIN})


def failure_of(error: Failure, counts: SocketCounts, *, duration_s: float) -> RetryDelivery:
    """Classify an attempt that got no answer."""
    if counts.forbidden and not counts.opened:
        return RetryDelivery(NO_ADDRESS, duration_s, forbidden=True)
    if isinstance(error, OSError) and _cause(error).errno in NO_SOCKETS | NO_PORT_OR_THREAD:
        return sender_exhausted(OWN_PAUSE_S, duration_s=duration_s)
    return RetryDelivery(one_line(_words(error, duration_s)), duration_s)


def sender_exhausted(pause_s: float, *, duration_s: float = 0.0) -> RetryDelivery:
    """Return the result of an attempt that failed because the sender had no free socket or thread."""
    return RetryDelivery(SENDER_EXHAUSTED, duration_s, after_s=pause_s, hold_s=pause_s, fault=FaultSide.SENDER)


def concerns_all_endpoints(error: Failure) -> bool:
    """Return whether a request to any endpoint would fail in this way, because the process has no free socket."""
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
