"""Change the found rows, or count them in a dry run, and describe the result in a sentence."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from shardclock_server.service.operations import InOneStep
from shardclock_server.service.unchanged import describe_unchanged
from shardclock_server.service.wording import counted

NOTHING = "nothing was changed"
NAMED_MAX = 5  # one sentence lists at most this many names

Row = TypeVar("Row")
Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class BulkResult(Generic[Key]):
    """The keys of the changed rows; after a dry run, the keys of the rows that would be changed.

    `more`: further rows match, but exceed the limit. `again_in_s`: the time to wait before a call for these rows.
    `operation_id` is the operation's number; None if at most one row was changed.
    """

    keys: Sequence[Key]
    sentence: str
    more: bool
    again_in_s: int = 0
    operation_id: int | None = None


def _nothing(*_: object) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class BulkWording(Generic[Row, Key]):
    """One bulk change, with its sentences.

    `done` is the sentence after a change, with the placeholders `{many}` (the number and the noun) and `{are}`. `of`
    returns words after the noun, which describe the selected rows. `which` returns the names of the rows, for the
    sentence after a dry run. `rest` ends both sentences: it describes the matching rows that were not selected.
    """

    noun: tuple[str, str]
    none: str
    would: str
    done: str
    key_of: Callable[[Row], Key]
    change: Callable[[Sequence[Row]], Awaitable[Sequence[Key]]]
    of: Callable[[Sequence[Row]], str] = _nothing
    which: Callable[[Sequence[Row]], str] = _nothing
    rest: str = ""

    async def run(
        self,
        selected: Sequence[Row],
        *,
        more: bool,
        dry_run: bool,
        again_in_s: int = 0,
        step: InOneStep | None = None,
    ) -> BulkResult[Key]:
        """Change the selected rows, and with a `step` record the change as an operation; a dry run changes nothing.

        errors:  as `change`
        """
        keys: Sequence[Key] = [self.key_of(row) for row in selected]
        operation_id: int | None = None
        reasons: Mapping[str, int] = {}
        if keys and not dry_run:
            change = partial(self.change, selected)
            if step is None:
                keys = await change()
            else:
                keys, reasons, operation_id = await step.run(keys, change)
        left = describe_unchanged(reasons)
        say = partial(self.word_dry_run, more=more) if dry_run else partial(self.word_change, left=left)
        return BulkResult(keys, say(len(keys), selected), more, again_in_s, operation_id)

    def word_dry_run(self, number: int, selected: Sequence[Row], *, more: bool) -> str:
        """Describe a dry run that would change `number` rows; `selected` has the names of the rows."""
        if not number:
            return f"{NOTHING}{self.rest}" if self.rest else self.none
        others = ", and there are more" if more else ""
        many = counted(number, *self.noun) + self.of(selected)
        return f"{many} would {self.would}{self.which(selected)}{others}; {NOTHING}{self.rest}"

    def word_change(self, number: int, selected: Sequence[Row], *, left: str) -> str:
        """Describe a change of `number` of the selected rows; `left` describes the unchanged rows."""
        if not number and not left and not self.rest:
            return self.none
        many = counted(number, *self.noun) + self.of(selected)
        said = self.done.format(many=many, are="is" if number == 1 else "are") if number else NOTHING
        unchanged = f"; unchanged: {left}" if left else ""
        return f"{said}{unchanged}{self.rest}"


def first_names(names: Sequence[str], noun: str) -> Sequence[str]:
    """Return the first `NAMED_MAX` of the sorted distinct names, and the number of the other names."""
    each = sorted(set(names))
    if len(each) <= NAMED_MAX:
        return each
    return [*each[:NAMED_MAX], counted(len(each) - NAMED_MAX, noun)]
