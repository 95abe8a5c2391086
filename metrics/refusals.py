"""Define the errors of an exporter, in a separate module that can be imported without the exporter's server."""


class CannotListen(Exception):
    """Report that the metrics port or the reports' socket can't be used; the message names the port or socket."""


class PortTaken(CannotListen):
    """Report that another process listens on the metrics port, or that this process may not use it."""
