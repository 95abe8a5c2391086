"""Advance an instance of a process by one signal, as a pure function of the definition, the state and the signal.

- `state` has an instance's tokens and variables.
- `signals` has the inputs of a step.
- `effects` has the outputs of a step, which are changes outside the instance.
- `advance` applies one signal, and continues until all tokens wait.
- `tokens` creates and ends tokens in the working memory of a step.
- `behaviours` executes a node when a token enters it.
- `node_exit` writes outputs and chooses flows when a token leaves a node.
- `wait_opening` opens a token's waits for timers, messages and signals.
- `wait_closing` closes these waits when the token ends or an event interrupts it.
- `events` applies an event to the waiting token.
- `joins` lets tokens pass joining gateways.
- `loops` executes multi-instance activities.
- `moves` moves tokens at an operator's request.
- `variables` finds the variables that an expression can read.
- `evaluation_budget` limits the cost of one element's expressions.

A step reads no clock, no database and no random number: the same signal on the same state has the same effects.
"""

from shardclock_server.bpmn.step.advance import StepResult, advance, begin, begin_stopped
from shardclock_server.bpmn.step.state import Instance, StateTooNew, read_catches, read_state, write_state
from shardclock_server.bpmn.step.wait_opening import opened_at_deployment

__all__ = [
    "Instance", "StateTooNew", "StepResult", "advance", "begin", "begin_stopped", "opened_at_deployment",
    "read_catches", "read_state", "write_state",
]  # fmt: skip
