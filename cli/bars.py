"""The bars of a change of many things, on a terminal: how many were found, and how many of them were changed."""

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from shardclock_server.cli.output import err


def bars_of(noun: str) -> Bars:
    """Make bars that count things by their noun, such as timers."""
    return Bars(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(noun),
        TimeRemainingColumn(),
        console=err,
        disable=not err.is_terminal,
    )


class OnBars:
    """Show the progress of a bulk change."""

    def __init__(self, bars: Bars, verb: str) -> None:
        self._bars = bars
        self._find = bars.add_task("find", total=None)
        self._change = bars.add_task(verb, total=None, visible=False)

    def found(self, things: int, *, all_found: bool) -> None:
        """Show how many were found."""
        self._bars.update(self._find, completed=things, total=things if all_found else None)

    def changed(self, things: int, *, of: int) -> None:
        """Show of how many the change was sent."""
        self._bars.update(self._change, completed=things, total=of, visible=True)
