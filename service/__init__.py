"""What clients of the cluster can do: use cases that need Postgres and no cluster, shared by all interfaces.

The command line and the gateway use them. None of them prints, parses an option or knows an exit code:
they take values, and return values or raise. None needs Ray, so all of them work while no cluster runs.

    explain      why a timer fired when it did, or why it did not
    explain_delivery  what became of the delivery to its target
    story        what is recorded of a timer around a moment
    outlook      when a timer is due next
    hold         put a database on hold, release it, and say whether it is
    scaling      how many shards, workers and engines there are to be
    bulk_run  change many rows: find them all, then change them page by page; `bulk_change` does that to timers
    many         the rows that were found are changed, or in a dry run counted
    bulk_import  a file of timers, with a report
    lines        many timers from newline-delimited JSON, with an outcome for each line
    endpoints    what a tenant does with the endpoints of webhooks
    deliveries   look at deliveries on their way, cancel one, or make next attempts due now
    dead_letters what is done with deliveries that were given up: they are redriven or discarded
    redriving    which dead letters can be called again, and why others can't
    dead_letter_run  that for all that a filter finds, batch by batch
    jobs         look at jobs, and change what they do
    job_runs     the runs of jobs, and how a start ends
    job_check    whether a job does its work
    job_configs  whether a configuration fits what a job's function takes
    job_file     jobs as they are described: all those of a file, or none; or one
    keys         the keys by which the HTTP API knows its callers: make, rotate and revoke one, and say whose one is
    tenants      what tenants may have, and what they have
    audit        what is recorded of what operators do
    consumers    where a consumer group reads on
    filters      which timers are meant
    moves        where a pending timer is moved to
    deployment   what a deployment tells the database about each process of a model
    processes    deploy models, start instances, look at them, and wait for their ends
    cancellation  cancel the instances of a business key
    tasks        what people do with their tasks
    service_tasks  what programs hear of the service tasks that they take
    undeclared   service tasks that nobody is known to do
    incidents    find tokens that can't go on, and resolve many
    token_moves  where tokens of an instance may be moved
    single_change  one change to one timer, and what its answer means
    words        numbers in sentences

A use case that is one statement needs no module here: `sql` has it, in the folder of what it is about.
"""
