"""What lists say on stderr when they are empty, and when they end before all is shown."""

from collections.abc import Sequence

from cli.output import tell


def tell_none(many: str, of_all: str, *, filtered: bool) -> None:
    """Say that a list is empty: `of_all` if it has no filters, else that there are no such rows."""
    tell(f"there are no such {many}" if filtered else of_all)


def tell_more(way_on: str) -> None:
    """Say that a list may go on, and by which option."""
    tell(f"there may be more: the same with {way_on}")


def tell_if_full(found: Sequence[object], limit: int, *, most: int | None = None, way_on: str = "") -> None:
    """Say that there may be more if a list has as many rows as it may; `most` is the highest limit that is accepted."""
    if len(found) < limit:
        return
    if way_on:
        tell_more(way_on)
    elif limit == most:
        tell(f"there may be more: at most {limit:,} are listed")
    else:
        tell_more("a higher --limit")
