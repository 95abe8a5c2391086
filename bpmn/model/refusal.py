"""Refuse a model, with a sentence for each element at fault."""

from typing import NamedTuple

from shardclock_server.timers.refusal import Refusal

PROBLEMS_SHOWN_MAX = 20


class Problem(NamedTuple):
    """Say what is wrong with one element: its id, and a sentence with the value, the rule and the way out."""

    element_id: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.element_id}: {self.sentence}" if self.element_id else self.sentence


class InvalidModel(Refusal):
    """Carry all that is wrong with a model, so that its author needs one deployment to learn it."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        shown = [str(problem) for problem in problems[:PROBLEMS_SHOWN_MAX]]
        if len(problems) > len(shown):
            shown.append(f"and {len(problems) - len(shown)} more")
        super().__init__("; ".join(shown))
