"""Draw processes at random as blocks inside blocks, write them as BPMN, and run them by a second, plain interpreter.

The interpreter does not use BPMN, tokens or flows: it starts a block, and calls the next block when the first block is
done. So the interpreter shares no fault with the engine. After each move, both interpreters must wait for the same
events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

from tests.support.bpmn import flows, job, timer

ERROR = '<error id="error" errorCode="E"/>'


@dataclass
class ProcessBlock:
    """A block of a process; `inside` lists the blocks in this block.

    shape:   kinds are task, timer, row, all, some and sub. For a sub-process, the first block is its content, the
             others follow its boundary events, of the kinds in `boundaries`
    """

    kind: str
    node_id: str
    inside: list[ProcessBlock] = field(default_factory=list)
    chosen: list[bool] = field(default_factory=list)
    boundaries: list[str] = field(default_factory=list)


def drawn(random: Random, *, depth: int, numbers: Iterator[int]) -> ProcessBlock:
    kind = random.choice(["task", "timer"] if not depth else ["task", "row", "row", "all", "some", "sub", "sub"])
    block = ProcessBlock(kind, f"{kind}{next(numbers)}")

    def part() -> ProcessBlock:
        return drawn(random, depth=depth - 1, numbers=numbers)

    if kind in ("row", "all", "some"):
        block.inside = [part() for _ in range(random.randint(2, 3))]
        block.chosen = [random.random() < 0.6 for _ in block.inside]
        block.chosen[0] |= not any(block.chosen)
    elif kind == "sub":
        block.boundaries = random.sample(["interrupts", "beside", "error"], random.randint(0, 3))
        block.inside = [part() for _ in range(1 + len(block.boundaries))]
    return block


class Written:
    """Write a block as BPMN: the elements, the flows, and the nodes where a token enters and leaves."""

    def __init__(self, block: ProcessBlock) -> None:
        first, last, inside = self.write(block)
        self.elements = f'<startEvent id="s"/>{inside}<endEvent id="e"/>' + flows(f"s>{first} {last}>e")

    def write(self, block: ProcessBlock) -> tuple[str, str, str]:
        """Write a block.

        shape:   the first node, the last, and the XML with the flows between
        """
        node_id = block.node_id
        match block.kind:
            case "task":
                return node_id, node_id, job(node_id)
            case "timer":
                event = timer("timeDuration", "PT1M")
                return node_id, node_id, f'<intermediateCatchEvent id="{node_id}">{event}</intermediateCatchEvent>'
            case "row":
                return self._row(block)
            case "sub":
                return self._sub(block)
            case _:
                return self._divided(block)

    def _row(self, block: ProcessBlock) -> tuple[str, str, str]:
        parts = [self.write(part) for part in block.inside]
        links = [f"{before[1]}>{after[0]}" for before, after in pairwise(parts)]
        return parts[0][0], parts[-1][1], "".join(part[2] for part in parts) + flows(" ".join(links))

    def _divided(self, block: ProcessBlock) -> tuple[str, str, str]:
        node_id, tag = block.node_id, "parallelGateway" if block.kind == "all" else "inclusiveGateway"
        text = f'<{tag} id="{node_id}"/><{tag} id="{node_id}j"/>'
        for part, chosen in zip(block.inside, block.chosen, strict=True):
            first, last, inside = self.write(part)
            condition = "" if block.kind == "all" else f"[{str(chosen).lower()}]"
            text += inside + flows(f"{node_id}>{first}{condition} {last}>{node_id}j")
        return node_id, f"{node_id}j", text

    def _sub(self, block: ProcessBlock) -> tuple[str, str, str]:
        node_id, after = block.node_id, f"{block.node_id}m"
        first, last, inside = self.write(block.inside[0])
        links = flows(f"{node_id}s>{first} {last}>{node_id}e")
        text = f'<subProcess id="{node_id}"><startEvent id="{node_id}s"/>{inside}<endEvent id="{node_id}e"/>{links}'
        text += f'</subProcess><exclusiveGateway id="{after}"/>' + flows(f"{node_id}>{after}")
        for kind, part in zip(block.boundaries, block.inside[1:], strict=True):
            event = '<errorEventDefinition errorRef="error"/>' if kind == "error" else timer("timeDuration", "PT1M")
            cancels = str(kind != "beside").lower()
            begun, ended, body = self.write(part)
            boundary = f"{node_id}{kind}"
            text += f'<boundaryEvent id="{boundary}" attachedToRef="{node_id}" cancelActivity="{cancels}">{event}'
            text += "</boundaryEvent>" + body + flows(f"{boundary}>{begun}")
            # The block after a non-interrupting event has its own end event. After the block of an interrupting event,
            # the token continues at the node after the sub-process.
            text += (
                f'<endEvent id="{boundary}o"/>' + flows(f"{ended}>{boundary}o")
                if kind == "beside"
                else flows(f"{ended}>{after}")
            )
        return node_id, after, text


class Scope:
    """The process or a sub-process: its waits, and the number of its open paths.

    shape:   `beside` has each sub-process with a non-interrupting event that has begun a path. While this path
             continues, its event could begin another path. So a choice in this path waits for the sub-process before
             the choice joins, unless all branches were chosen
    """

    def __init__(self, parent: Scope | None, then: Callable[[], None], caught: Callable[[], None] | None) -> None:
        self.parent, self.then, self.caught = parent, then, caught
        self.inner: list[Scope] = []
        self.waits: dict[str, Callable[[], None]] = {}
        self.paths = 0
        self.joining: list[tuple[tuple[Scope, ...], Callable[[], None]]] = []
        if parent:
            parent.inner.append(self)

    def run(self, block: ProcessBlock, beside: tuple[Scope, ...] = ()) -> None:
        """Begin a path that runs one block; after the block the path ends."""
        self.paths += 1
        self._start(block, self._end_of_path, beside)

    def all_waits(self) -> dict[str, tuple[Scope, Callable[[], None]]]:
        found = {name: (self, go_on) for name, go_on in self.waits.items()}
        for scope in self.inner:
            found |= scope.all_waits()
        return found

    def throw(self) -> bool:
        """Pass an error to the nearest scope that catches the error; return False if no scope catches it."""
        at: Scope | None = self
        while at and not at.caught:
            at = at.parent
        if at and at.caught:
            at.caught()
        return at is not None

    def _end_of_path(self) -> None:
        self.paths -= 1
        if not self.paths:
            self.then()

    def _start(self, block: ProcessBlock, then: Callable[[], None], beside: tuple[Scope, ...]) -> None:
        match block.kind:
            case "task" | "timer":
                self._wait(block.node_id, then)
            case "row":
                self._start_row(block.inside, then, beside)
            case "sub":
                self._start_sub(block, then, beside)
            case "some" if not all(block.chosen):
                parts = [part for part, chosen in zip(block.inside, block.chosen, strict=True) if chosen]
                self._start_all(parts, lambda: self._join(then, beside), beside)
            case _:
                self._start_all(block.inside, then, beside)

    def _start_row(self, parts: list[ProcessBlock], then: Callable[[], None], beside: tuple[Scope, ...]) -> None:
        first, *rest = parts
        self._start(first, (lambda: self._start_row(rest, then, beside)) if rest else then, beside)

    def _start_all(self, parts: list[ProcessBlock], then: Callable[[], None], beside: tuple[Scope, ...]) -> None:
        left = [len(parts)]

        def done() -> None:
            left[0] -= 1
            if not left[0]:
                then()

        for part in parts:
            self._start(part, done, beside)

    def _join(self, then: Callable[[], None], beside: tuple[Scope, ...]) -> None:
        if any(scope in self.inner for scope in beside):
            self.joining.append((beside, then))
        else:
            then()

    def _close(self, inner: Scope) -> None:
        self.inner.remove(inner)
        joining, self.joining = self.joining, []
        for beside, then in joining:
            self._join(then, beside)

    def _start_sub(self, block: ProcessBlock, then: Callable[[], None], beside: tuple[Scope, ...]) -> None:
        names = [f"{block.node_id}{kind}" for kind in block.boundaries]
        followed = dict(zip(block.boundaries, block.inside[1:], strict=True))

        def close() -> None:
            for name in names:
                self.waits.pop(name, None)
            self._close(inner)

        def end() -> None:
            close()
            then()

        def interrupt(kind: str) -> Callable[[], None]:
            def go_on() -> None:
                close()
                self._start(followed[kind], then, beside)

            return go_on

        inner = Scope(self, end, interrupt("error") if "error" in followed else None)
        if "interrupts" in followed:
            self.waits[f"{block.node_id}interrupts"] = interrupt("interrupts")
        if "beside" in followed:
            self._wait(f"{block.node_id}beside", lambda: self.run(followed["beside"], (*beside, inner)))
        inner.run(block.inside[0])

    def _wait(self, name: str, then: Callable[[], None]) -> None:
        def go_on() -> None:
            del self.waits[name]
            then()

        self.waits[name] = go_on
