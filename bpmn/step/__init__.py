"""Advance an instance of a process by one signal, as a pure function of the definition, the state and the signal.

    state              an instance's tokens and variables
    signals            the inputs of a step
    effects            the outputs of a step: changes outside the instance
    advance            take one signal, and advance until all tokens wait
    tokens             create and end tokens in the working memory of a step
    behaviours         what each kind of node does when a token enters
    node_exit          write outputs and choose flows when a token leaves
    wait_opening       open a token's waits for timers, messages and signals
    wait_closing       close these waits, when the token ends or an event interrupts
    events             apply an event to the waiting token
    joins              pass the gateways that join tokens
    loops              execute multi-instance activities
    moves              move tokens at an operator's request
    variables          the variables that an expression sees
    evaluation_budget  the budget of one element's expressions

A step reads no clock, no database and no random number: the same signal on the same state has the same effects.
"""

from shardclock_server.bpmn.step.advance import StepResult, advance, begin, begin_stopped
from shardclock_server.bpmn.step.state import Instance, StateTooNew, read_catches, read_state, write_state
from shardclock_server.bpmn.step.wait_opening import opened_at_deployment

__all__ = [
    "Instance", "StateTooNew", "StepResult", "advance", "begin", "begin_stopped", "opened_at_deployment",
    "read_catches", "read_state", "write_state",
]  # fmt: skip
