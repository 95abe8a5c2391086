"""Advance an instance of a process by one signal: a pure function of the definition, the state and the signal.

`state` is what is known of an instance, `signals` what can happen to it, `effects` what follows for the world.
`advance` takes one signal; `stepping` holds one step, and makes and ends tokens; `leaving` takes a token out of its
node; `behaviours` says what a node does when a token comes to it, `events` what an event does to the tokens around it,
`joins` and `loops` when tokens go on together, `moves` where a token can be put by hand, `variables` which values an
expression sees, `spending` how much the expressions of one element may do.

Nothing here reads a clock, a database or a random number, so the same signal on the same state gives the same effects.
"""

from shardclock_server.bpmn.step.advance import Step, advance, begin, begin_stopped
from shardclock_server.bpmn.step.events import opened_at_deployment
from shardclock_server.bpmn.step.state import Instance, StateTooNew, read_catches, read_state, write_state

__all__ = [
    "Instance", "StateTooNew", "Step", "advance", "begin", "begin_stopped", "opened_at_deployment", "read_catches",
    "read_state", "write_state",
]  # fmt: skip
