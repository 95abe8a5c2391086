"""What commands print that change many rows, or say what they would change."""

from collections.abc import Mapping, Sequence

from shardclock_server.cli.output import DONE, NOT_DONE, print_json, tell
from shardclock_server.service.many import Changed, Key


def print_changed(changed: Changed[Key], shown: Mapping[str, Sequence[object]], *, yes: bool, as_json: bool) -> int:
    """Print what was done or, without `yes`, would be; in JSON the rows as they are `shown`. Return how it ends."""
    if as_json:
        numbers = {"more": changed.more, "again_in_s": changed.again_in_s}
        print_json({**shown, "said": changed.sentence, "done": yes, **numbers})
    else:
        tell(f"{changed.sentence}{_way_on(changed, yes=yes)}")
    return DONE if changed.keys else NOT_DONE


def _way_on(changed: Changed[Key], *, yes: bool) -> str:
    if not changed.keys:
        return ""
    if not yes:
        return "; add --yes to do it"
    pause = f" in {changed.again_in_s:,} s, when these are due" if changed.again_in_s else ""
    return f"; there are more: run it again{pause}" if changed.more else ""
