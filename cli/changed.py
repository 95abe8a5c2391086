"""Print the result of a bulk change or of its dry run."""

from collections.abc import Mapping, Sequence

from shardclock_server.cli.output import print_done
from shardclock_server.service.bulk_wording import BulkResult, Key


def print_changed(changed: BulkResult[Key], shown: Mapping[str, Sequence[object]], *, yes: bool, as_json: bool) -> int:
    """Print the result, or the dry run if `yes` is false.

    Return the exit code; a dry run has the code for work that is not done. The JSON output also contains `shown`.
    """
    numbers = {"more": changed.more, "again_in_s": changed.again_in_s}
    fields = {**shown, "message": changed.sentence, "done": yes, **numbers}
    message = f"{changed.sentence}{_way_on(changed, yes=yes)}"
    return print_done(message, fields, done=yes and bool(changed.keys), as_json=as_json)


def _way_on(changed: BulkResult[Key], *, yes: bool) -> str:
    if not changed.keys:
        return ""
    if not yes:
        return "; add --yes to do it"
    pause = f" in {changed.again_in_s:,} s, after these rows are due" if changed.again_in_s else ""
    return f"; more rows match: repeat the command{pause}" if changed.more else ""
