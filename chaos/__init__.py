"""Inject faults into a cluster under load, and judge the cluster's promises from the recording.

This program, the rig, has three parts: load with faults, recording, and verdict. The verdict uses no code of the
product.

Plan and load:
    plan             the calls of clients and the faults, drawn from one seed; process_plan: the process instances
    fault_options    the faults of a run and their frequency, by cluster
    clients          the connections of clients, and their calls with the answers
    timer_load       clients of timers, which send each call at its time; process_load: clients of processes
    process_models   the models of processes, and the paths through each model
    behaviours       the actions of handlers (in app) and of an endpoint (webhook_receiver, which webhooks starts)
    dead_letters     redrives and discards dead letters, as an operator does
    nemesis          injects the planned faults; faults: one function for each fault
    sandbox          a Postgres for one run, behind the proxy, with a cluster
    proxy            passes the traffic between cluster and Postgres on, and can cut, hold or slow it, or lose a reply;
                     frames: of Postgres's protocol
    clusters         `up` in each of its modes, or keepers alone (keeper_pool, worker_pool); multi_host: on four hosts
    running          one run, from the first client to the last record; waiting: for conditions

Recording:
    recorder         reads transactions in commit order from a logical replication slot; pgoutput decodes them
    readers          two readers of the command log
    history          the whole recording; history_files: the same as JSON lines

Verdict:
    run_index        the history by timer, holder and key, in one pass; process_index: by instance, signal and task
    promises         one check for each promise; oracle: the occurrences of schedules by independent code
    fault_windows    the allowed lateness during faults; orphaned_slots: slots without a shard; takeover: the durations
    checker          the verdict: valid, invalid or unknown
    report           a page and a picture (picture, fault_marks)
    broken           runs the broken_builds: the checker must find each build's mistake
    scripted         hand-written runs: a valid run, and violations of each promise

The data flow: plan → clients and nemesis → history → run_index → checker → report.
"""
