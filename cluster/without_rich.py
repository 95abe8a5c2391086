"""Load structlog without rich, in the processes that must start before the first firing."""

import sys


def load_structlog() -> None:
    """Import structlog without rich, before any other module imports structlog.

    Without rich (coloured tracebacks) a process starts 30 ms sooner and needs 5 MB less.
    """
    if "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment] # Python's mark of a module that can't be imported
    try:
        import structlog.dev  # noqa: F401 - it remembers that there is no rich
    finally:
        del sys.modules["rich"]
