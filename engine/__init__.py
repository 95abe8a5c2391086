"""Drive processes: take the signals that are due, advance their instances in memory, and write all that follows.

An engine is a slot keeper. It claims nothing. It reads signals and instances, lets `bpmn` advance these, and writes the
whole batch in one statement, which leaves out each instance that somebody has advanced since.

inbox        what a signal in the database says
advancing    the signals of one instance, one after the other, and what follows from them as rows
outbox       the rows
batches      the instances of one turn, in memory
fair_queue   which tenant's instance is next
needs        how much more a tenant has after a step
quotas       for which steps a tenant has room
spreading    thrown signals, which go to all that wait for them
definitions  compiled models, kept in memory
runner       one turn: read, advance, write; what can't be taken fails alone
putting_off  how long what can't be taken is put off
put_off_log  what is logged of that
engine       the keeper: its loops; `stepped` is the engine of a clock that a test moves
stats        what is counted, `families` its metrics, `settings` its numbers
"""
