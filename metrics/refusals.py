"""Why an exporter can't serve; in a module of its own, so that who only names these loads no server."""


class CannotListen(Exception):
    """The metrics port, or the socket for reports, can't be used; the message names it and the way out."""


class PortTaken(CannotListen):
    """Another process listens on the metrics port, or we may not use it."""
