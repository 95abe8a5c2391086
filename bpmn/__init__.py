"""Run processes in BPMN: `model` reads a model, and `step` advances an instance by a signal; `drawing` reads a drawing.

All three are pure: they use no clock, no database and no Ray. A step is a function of the definition, the state and
a signal. So an engine can repeat a step after a conflict, and tests don't wait. The package `feel` evaluates the
expressions.
"""
