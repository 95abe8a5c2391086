"""Execute process instances: read due signals, advance the signals' instances in memory, and write all effects.

An engine is a keeper: a process that owns some slots. An engine claims no rows; shards claim timers
(sql/claims/claim_due.sql). An engine reads signals and instances, advances the instances with the package `bpmn`, and
writes the whole batch in one statement. The statement skips each instance that another engine has advanced since the
read.

inbox:             parse signals from the database
advance:           advance one instance by its signals, and collect the effects as rows
outbox:            collect the effects of steps as rows
batch:             advance the instances of one turn in memory
tenant_scheduler:  choose the next tenant by the tenants' used time
usage_increase:    how much a step increases a tenant's usage
tenant_quotas:     enforce the quotas of tenants
broadcast:         send thrown signals to all their subscriptions
definitions:       a cache of compiled models
runner:            one turn: read signals, advance their instances, write the effects
failed_signals:    defer or give up signals that can't be processed
retry_policy:      choose when and how often a failed signal is retried
deferral_log:      the log of deferred signals
engine:            the keeper and its loops; `stepped` is an engine for tests that move the clock
stats:             the counters of an engine; `families` declares the metrics, `settings` the engine's settings
"""
