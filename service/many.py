"""Change the rows that were found, or in a dry run none; say what was done and what is left."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from shardclock_server.service.words import counted

NAMED_MAX = 5  # in one sentence

Row = TypeVar("Row")
Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class Changed(Generic[Key]):
    """Which rows were changed or, of a dry run, would be.

    `more` says whether others are left; after `again_in_s` they may be changed, too.
    """

    keys: Sequence[Key]
    sentence: str
    more: bool
    again_in_s: int = 0


def _nothing(*_: object) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Many(Generic[Row, Key]):
    """One way to change many rows, and what is said of it.

    `done` has places for `{many}`, how many there are, and for `{are}`. `of` says more of what is meant, and `which`
    still more in a dry run; `left` says what stays as it is. Each goes on as the sentence does.
    """

    noun: tuple[str, str]
    none: str
    would: str
    done: str
    key_of: Callable[[Row], Key]
    change: Callable[[Sequence[Row]], Awaitable[Sequence[Key]]]
    of: Callable[[Sequence[Row]], str] = _nothing
    which: Callable[[Sequence[Row]], str] = _nothing
    left: Callable[[Sequence[Row], Sequence[Key]], str] = _nothing

    async def do(self, meant: Sequence[Row], *, more: bool, dry_run: bool, again_in_s: int = 0) -> Changed[Key]:
        """Change the rows that are meant, or say what would be done.

        errors:  as `change`
        """
        keys: Sequence[Key] = [self.key_of(row) for row in meant]
        if keys and not dry_run:
            keys = await self.change(meant)
        left = self.left(meant, keys)
        say = partial(self.say_would, more=more) if dry_run else partial(self.say_done, left=left)
        return Changed(keys, say(len(keys), meant), more, again_in_s)

    def say_would(self, number: int, meant: Sequence[Row], *, more: bool) -> str:
        """Say what would be done with so many rows; those that are meant say which they are."""
        if not number:
            return self.none
        others = ", and there are more" if more else ""
        many = counted(number, *self.noun) + self.of(meant)
        return f"{many} would {self.would}{self.which(meant)}{others}; nothing was changed"

    def say_done(self, number: int, meant: Sequence[Row], *, left: str) -> str:
        """Say what was done with so many of the rows that are meant."""
        if not number:
            return f"nothing was changed{left}" if left else self.none
        many = counted(number, *self.noun) + self.of(meant)
        return self.done.format(many=many, are="is" if number == 1 else "are") + left


def some_of(names: Sequence[str], noun: str) -> Sequence[str]:
    """Sort names, each once; of many, keep the first few, and count the others."""
    each = sorted(set(names))
    if len(each) <= NAMED_MAX:
        return each
    return [*each[:NAMED_MAX], counted(len(each) - NAMED_MAX, noun)]
