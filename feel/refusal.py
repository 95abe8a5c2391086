"""Refuse a text that is not FEEL, and end an evaluation that passes a bound."""

from shardclock_server.timers.refusal import Refusal, shortened


class NotFeel(Refusal):
    """Refuse a text that is not an expression of our FEEL; its sentence names the place, the rule and the way out.

    shape:   `position` counts characters from 0 to the length of the text; `rule` is the sentence without the place
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
    """End an evaluation that takes more steps, or makes a longer or deeper value, than is allowed."""


class Unstorable(Refusal):
    """End an evaluation: its value holds a text that Postgres can't store."""


class Unmet(Refusal):
    """End an evaluation whose `assert` does not hold, with the sentence that its author wrote."""
