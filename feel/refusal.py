"""Define the errors: a text that is not FEEL, and an evaluation that ends early."""

from shardclock_server.timers.refusal import Refusal, shortened


class NotFeel(Refusal):
    """Refuse a text that is not a supported FEEL expression; the message names the position, the rule and the way out.

    shape:   `position` counts characters from 0 to the length of the text; `rule` is the message without the position
    """

    def __init__(self, text: str, position: int, rule: str) -> None:
        line = text.count("\n", 0, position) + 1
        column = position - (text.rfind("\n", 0, position) + 1) + 1
        where = f"column {column}" if line == 1 else f"line {line}, column {column}"
        super().__init__(f"{shortened(text)} is not FEEL at {where}: {rule}")
        self.text = text
        self.position = position
        self.rule = rule


class TooLong(Refusal):
    """End an evaluation that takes too many steps, or makes a value that is too long or too deep."""


class Unstorable(Refusal):
    """End an evaluation because its value contains a text that Postgres can't store."""


class AssertionFailed(Refusal):
    """End an evaluation because an `assert` failed; the message is the assertion's own message."""
