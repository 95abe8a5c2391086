"""Execute a multi-instance activity: once per item of a list, in sequence or in parallel."""

from shardclock_server.bpmn.model.definition import MultiInstance
from shardclock_server.bpmn.model.expressions import InvalidValue, Text
from shardclock_server.bpmn.model.extensions import ITEMS_MAX, check_count
from shardclock_server.bpmn.step.node_exit import finish
from shardclock_server.bpmn.step.state import LoopState, Phase, Token
from shardclock_server.bpmn.step.tokens import StepContext
from shardclock_server.bpmn.step.variables import EvaluationFailed, describe_lookups
from shardclock_server.feel import Json
from shardclock_server.timers.refusal import shortened


def begin_loop(step: StepContext, token: Token, loop: MultiInstance) -> None:
    """Find the items of a multi-instance activity, and start the first execution, or all parallel executions.

    errors:  EvaluationFailed  the collection is not a list, or has too many items
    """
    items = _items(step, token, loop)
    token.loop = LoopState(items, outputs=[None] * len(items) if loop.output_name else [])
    token.phase = Phase.WAITS
    go_on_with_loop(step, token)


def go_on_with_loop(step: StepContext, token: Token) -> None:
    """Start the next executions of a multi-instance activity, or leave the activity when all executions have ended."""
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


def variables_of_execution(token: Token, loop: MultiInstance, number: int) -> dict[str, Json]:
    """Return an execution's own variables: the item, null for the result, and the number, which starts at 1."""
    assert token.loop, "the token of a multi-instance activity has the items"
    own: dict[str, Json] = {loop.result_name: None} if loop.result_name else {}
    item: dict[str, Json] = {loop.item_name: token.loop.items[number - 1]} if loop.item_name else {}
    return own | item | {"loopCounter": number}


def _loop_of(step: StepContext, token: Token) -> tuple[MultiInstance, LoopState]:
    loop = step.node_of(token).loop
    assert loop, "only a multi-instance activity has executions"
    assert token.loop, "the activity's token has the progress of the loop"
    return loop, token.loop


def _items(step: StepContext, token: Token, loop: MultiInstance) -> list[Json]:
    if loop.items is not None:
        found = step.value(loop.items, token)
        if not isinstance(found, list):
            raise EvaluationFailed(
                f"the collection of the multi-instance loop is {shortened(found)}, not a list"
                f"{describe_lookups(step.instance, token, loop.items)}"
            )
    else:
        count = _count(step, token, loop.count or "")
        found = list(range(1, count + 1))
    if len(found) > ITEMS_MAX:
        raise EvaluationFailed(f"the multi-instance loop has {len(found):,} items; it may have {ITEMS_MAX:,}")
    return found


def _count(step: StepContext, token: Token, text: Text) -> int:
    try:
        return check_count(step.value(text, token))
    except InvalidValue as error:
        raise EvaluationFailed(f"{error}{describe_lookups(step.instance, token, text)}") from None
