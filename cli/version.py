"""The version of this program."""

import sys
from importlib.metadata import version


def print_version() -> None:
    """Print the version."""
    sys.stdout.write(f"shardclock {version('shardclock')}\n")
