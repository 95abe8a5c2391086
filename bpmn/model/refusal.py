"""Define the error for a refused model, with one message for each faulty element."""

from typing import NamedTuple

from shardclock_server.timers.refusal import Refusal

PROBLEMS_SHOWN_MAX = 20


class ModelProblem(NamedTuple):
    """One fault of a model: the element's id, and a message with the value, the rule and the way out."""

    element_id: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.element_id}: {self.sentence}" if self.element_id else self.sentence


class InvalidModel(Refusal):
    """A refused model.

    The error lists all faults, so that the author can correct all of them before the next deployment.
    """

    def __init__(self, *problems: ModelProblem) -> None:
        self.problems = problems
        shown = [str(problem) for problem in problems[:PROBLEMS_SHOWN_MAX]]
        if len(problems) > len(shown):
            shown.append(f"and {len(problems) - len(shown)} more")
        super().__init__("; ".join(shown))
