"""Show progress bars of a bulk change on a terminal: the number of matching rows, and the number of changed rows."""

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from shardclock_server.cli.output import err
from shardclock_server.service.bulk_run import BulkProgress


def bars_of(noun: str) -> Bars:
    """Create the bars; `noun` names the counted rows, such as timers."""
    return Bars(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(noun),
        TimeRemainingColumn(),
        console=err,
        disable=not err.is_terminal,
    )


class ProgressBars(BulkProgress):
    """The bars of one bulk change."""

    def __init__(self, bars: Bars, verb: str) -> None:
        self._bars = bars
        self._find = bars.add_task("find", total=None)
        self._change = bars.add_task(verb, total=None, visible=False)

    def found(self, things: int, /, *, all_found: bool) -> None:
        """Show the number of matching rows."""
        self._bars.update(self._find, completed=things, total=things if all_found else None)

    def changed(self, things: int, /, *, of: int) -> None:
        """Show for how many rows a request was sent."""
        self._bars.update(self._change, completed=things, total=of, visible=True)
