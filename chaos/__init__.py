"""Inject faults into a cluster under load, and judge the cluster's promises from the recording.

This program, called the rig, has three parts: the load with faults, the recording, and the verdict. The verdict uses no
code of the product.

The modules of the load:

- `plan` and `process_plan` draw the calls of clients, the process instances and the faults of a run from one seed.
- `fault_options` has the possible faults of a run and their frequency, by cluster.
- `clients` shares connections among clients, and records their calls with the answers.
- `timer_load` and `process_load` send each planned call of a client at its time.
- `process_models` has the models of processes, and the paths through each model.
- `behaviours` lists the actions of handlers and of an endpoint.
- `app` has the handlers, and `webhook_receiver`, which `webhooks` starts, is the endpoint.
- `dead_letters` redrives and discards dead letters as an operator would.
- `nemesis` injects the planned faults, and `faults` has one function for each fault.
- `sandbox` sets up Postgres, the proxy and a cluster for one run.
- `proxy` forwards the traffic between cluster and Postgres, and can cut, hold or delay it, or lose a reply.
- `frames` reads the frames of Postgres's protocol for the proxy.
- `clusters` runs `up` in each of its modes, or only keepers, with `keeper_pool` and `worker_pool`.
- `multi_host` runs a cluster on several simulated hosts, which `network` creates.
- `running` executes one run, from the first client to the last record, and `waiting` waits for conditions.
- `jobs` is a separate rig for an app's jobs.

The modules of the recording:

- `recorder` reads transactions in commit order from a logical replication slot, and `pgoutput` decodes these.
- `readers` reads the command log with two readers.
- `history` is the whole recording, and `history_files` saves it as JSON lines.

The modules of the verdict:

- `run_index` indexes a history by timer, holder and key, and `process_index` by instance, signal and task.
- `promises` has one check for each promise, and `oracle` computes the occurrences of schedules with independent code.
- `fault_windows` has the allowed lateness during faults, and `orphaned_slots` finds slots without a shard.
- `takeover` measures the durations of takeovers and recoveries.
- `checker` gives the verdict: valid, invalid or unknown.
- `report` writes a page with a picture, which `picture` and `fault_marks` draw.
- `broken` runs the builds in `broken_builds`, and the checker must find the mistake of each build.
- `scripted` has hand-written runs: a valid run, and violations of each promise.
"""
