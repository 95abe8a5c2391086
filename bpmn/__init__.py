"""Run processes: read BPMN models (`model`), and advance instances by signals (`step`). Expressions are in `feel`.

All of it is pure: no clock, no database, no Ray. A step is a function of the definition, the state and a signal, so it
can be repeated after a conflict, and tested without waiting for anything.
"""
