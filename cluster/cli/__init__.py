"""The command line: `shardclock --help`.

Results go to stdout, as tables for people and with `--json` for programs; everything else goes to stderr. Exit codes:
0 done; 1 not done as asked (a line refused, a timer already fired, a demo that failed); 2 bad input or settings;
3 Postgres or Ray is not there; 4 the schema needs `shardclock migrate`.
"""

from cluster.cli.app import main

__all__ = ["main"]
