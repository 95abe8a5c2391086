"""Execute an activity once for each item of a list: one after the other, or all at once."""

from shardclock_server.bpmn.model.definition import Loop
from shardclock_server.bpmn.model.expressions import Text, Unreadable
from shardclock_server.bpmn.model.extensions import ITEMS_MAX, check_count
from shardclock_server.bpmn.step.leaving import finish
from shardclock_server.bpmn.step.state import LoopState, Phase, Token
from shardclock_server.bpmn.step.stepping import Stepping
from shardclock_server.bpmn.step.variables import Unanswerable, lookups
from shardclock_server.feel import Json
from shardclock_server.timers.refusal import shortened


def begin_loop(step: Stepping, token: Token, loop: Loop) -> None:
    """Find the items, and begin the first execution, or all.

    errors:  Unanswerable  there is no list of items
    """
    items = _items(step, token, loop)
    token.loop = LoopState(items, outputs=[None] * len(items) if loop.output_name else [])
    token.phase = Phase.WAITS
    go_on_with_loop(step, token)


def go_on_with_loop(step: Stepping, token: Token) -> None:
    """Begin what is next of a multi-instance activity, or let it go on when all is done."""
    loop, state = _loop_of(step, token)
    running = len(step.instance.children(token.key))
    if state.is_enough or state.next - running == len(state.items):
        step.terminate_inside(token)
        results: dict[str, Json] = {loop.output_name: list(state.outputs)} if loop.output_name else {}
        finish(step, token, results)
        return
    while state.next < len(state.items) and not (loop.is_sequential and running):
        running += 1
        state.next += 1
        step.plan(token.node_id, token.key, number=state.next)


def variables_of_execution(token: Token, loop: Loop, number: int) -> dict[str, Json]:
    """Return what is an execution's own: its item, and what will be its result; the first has number 1."""
    assert token.loop, "an execution's activity has its items"
    own: dict[str, Json] = {loop.result_name: None} if loop.result_name else {}
    item: dict[str, Json] = {loop.item_name: token.loop.items[number - 1]} if loop.item_name else {}
    return own | item | {"loopCounter": number}


def _loop_of(step: Stepping, token: Token) -> tuple[Loop, LoopState]:
    loop = step.node_of(token).loop
    assert loop, "only an activity with a loop has executions"
    assert token.loop, "its token knows how far they have come"
    return loop, token.loop


def _items(step: Stepping, token: Token, loop: Loop) -> list[Json]:
    if loop.items is not None:
        found = step.value(loop.items, token)
        if not isinstance(found, list):
            raise Unanswerable(
                f"the collection of its multi-instance is {shortened(found)}, not a list"
                f"{lookups(step.instance, token, loop.items)}"
            )
    else:
        count = _count(step, token, loop.count or "")
        found = list(range(1, count + 1))
    if len(found) > ITEMS_MAX:
        raise Unanswerable(f"its multi-instance has {len(found):,} items; it may have {ITEMS_MAX:,}")
    return found


def _count(step: Stepping, token: Token, text: Text) -> int:
    try:
        return check_count(step.value(text, token))
    except Unreadable as error:
        raise Unanswerable(f"{error}{lookups(step.instance, token, text)}") from None
