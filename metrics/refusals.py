"""Define the errors of an exporter in a separate module, so that an import of them loads no server."""


class CannotListen(Exception):
    """Report that the metrics port or the reports' socket can't be used; the message has the name and the way out."""


class PortTaken(CannotListen):
    """Report that another process listens on the metrics port, or that this process may not use it."""
