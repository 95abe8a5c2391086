"""A rig that breaks everything, and a checker that proves the promises from what was recorded.

What is done:
    plan       what clients will do and what will be broken, and when: drawn from one seed, before anything runs
    menus      which faults a run draws from, and how often
    clients    what all clients share: connections, and the journal of what they asked and were told
    load       clients of timers: they send what the plan says when it says so, whether or not answers have come
    models     processes, and the ways through each; process_plan, process_load  clients that start and drive instances
    nemesis    breaks things as the plan says; faults  what can be broken, and how
    app        what timers with a target call; acts  what it is to do, and what must come of it
    letters    an operator who redrives and discards dead letters
    proxy      the network between the cluster and Postgres, so that it can be cut, slowed, or lose one reply
    stage      what is broken: a Postgres of the run's own, and a cluster on it
    clusters   with or without Ray; kept, workers  those without; away  how to wait for what comes back
    running    one run, from the first client to the last record

What is recorded:
    recorder   commit order, from a logical replication slot that was made before the run
    app        each call of a handler, by the handler, in a file that only grows
    history    all that was recorded: pure data; files  the same as JSON lines

What is said of it:
    lives      the history told timer by timer, in one pass; instances  the same by instance, signal and task
    promises   one check each; oracle  when a schedule should have fired, by other code than ours
    windows    what each fault excuses, and until when; orphans  slots that nobody keeps; takeover  how long it took
    checker    the verdict: valid, invalid or unknown
    report     one page, and one picture: picture, marks
    broken     makes builds that are broken on purpose, as builds says: the checker must find each of them
    tape       runs written by hand, and process_tape what instances do in them; good_run  one in which all went well;
               offences, delivery_offences, process_offences  what breaks one promise each

Data goes one way: plan → load, nemesis → history → checker → report. Nothing of the product is asked for a verdict.
"""
