"""The use cases that the command line and the gateway share.

A use case needs Postgres but no running cluster, so no module here imports Ray. A use case takes values, and returns
values or raises an error; it neither prints nor parses options.

    explain                 why a timer had fired, or had not fired, by a given moment
    explain_delay           how a client's pause or move delayed the timer
    explain_delivery        how the delivery to the timer's target ended
    timeline                the records of a timer around a moment
    authors                 the names of the API keys and operators in an explanation
    next_due                the next occurrences of a timer
    pauses                  pause a timer, with or without an end
    missed_count            the number of occurrences that paused schedules have missed
    overview                punctuality, coming timers, and problems that need a person
    hold                    put a database on hold, release it, read its hold
    operator_hold           the author of an operator's hold
    scaling                 the wanted number of shards, workers and engines
    bulk_run                change many rows: find all rows first, then change them page by page
    operations              bulk operations: start, continue, list and cancel them
    operation_verbs         change one page of rows, with the verb of the page's operation
    bulk_change             change all timers that match a filter in one bulk run
    unchanged               the reasons why an operation left rows unchanged
    bulk_wording            the dry run and the sentences of a bulk change with a single statement
    bulk_import             schedule a file of timers, with a report
    lines                   schedule newline-delimited JSON, with an outcome for each line
    endpoints add, change, test, disable and remove endpoints of webhooks
    notify                  subscribe endpoints to events for operators, and test them
    deliveries              list deliveries, cancel one, make next attempts due now
    dead_letters            list, redrive and discard dead letters
    redriving               redrive dead letters, and explain why other dead letters can't be redriven
    dead_letter_run         redrive or discard all dead letters that match a filter, batch by batch
    jobs                    list, start, stop, configure, add and remove jobs
    job_runs                the runs of jobs; wait for the end of a start
    job_check               check whether a job works
    job_list                jobs page by page, with their lateness
    job_configs             check a configuration against the argument of a job's function
    job_file                write the jobs that a file describes, all or none; or write one job
    keys                    make, rotate, revoke and check API keys
    sign_ins                exchange an API key for a session of the console
    tenants                 the limits and the usage of tenants
    audit                   list audit records, and choose the fields of a request that a record stores
    consumers               parse the position of a consumer group
    filters                 read a filter of timers
    moves                   the new date or rule of a pending timer
    deployment              describe each process of a model for the database
    doctor                  checks of the server and the schema of an installation
    cluster_check           checks of the cluster: slots, leader, workers, engines, lag and ramp
    finding                 the result of one check of `doctor` or `cluster_check`
    processes               deploy models, start instances, find them, wait for their ends
    instance_list           list instances by a filter
    instance_cancellation   cancel all instances with one business key
    tasks                   user tasks
    service_tasks           lease service tasks to programs
    unserved                handlers and jobs that have waiting deliveries, but no running worker
    undeclared              service task types that have no handler and no endpoint
    incidents               resolve many incidents
    token_moves             move tokens of an instance, and set the variables of tokens
    schedules               schedules, each with its last firings
    single_change           change one timer, and interpret the returned state
    wording                 numbers and lengths of time in sentences

A use case that is a single SQL statement has no module here: its function is in the folder of its subject in `sql`.
"""
