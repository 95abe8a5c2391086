"""Drive process instances: read due signals, advance their instances in memory, and write all effects.

An engine is a keeper: a process that owns some slots. An engine claims no rows. An engine reads signals and instances,
advances the instances with `bpmn`, and writes the whole batch in one statement, which skips each instance that another
engine has advanced since the read.

inbox:             parse the signals of the database
advance:           advance one instance by its signals, and collect the effects as rows
outbox:            the rows of the effects
batch:             the instances of one turn, in memory
tenant_scheduler:  the order of tenants by their used time
usage_increase:    the increase of a tenant's usage by a step
tenant_quotas:     enforce the quotas of tenants
broadcast:         send thrown signals to all their subscriptions
definitions:       a cache of compiled models
runner:            one turn: read, advance, write; a faulty signal fails alone
failed_signals:    defer or give up signals that can't be processed
retry_policy:      the delay and the number of tries of such a signal
deferral_log:      the log of deferred signals
engine:            the keeper with its loops; `stepped` is the engine for tests that move the clock
stats:             the counters; `families` has their metrics, `settings` the engine's numbers
"""
