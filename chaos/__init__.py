"""Inject faults into a cluster under load, and check the cluster's promises from a recording.

This program, called the rig, has three parts: the load with its faults, the recording, and the verdict. The code of the
verdict uses no code of the product.

The modules of the load:

- `plan` and `process_plan` generate the random calls, process instances and faults of a run; the same seed gives the
  same run.
- `fault_options` lists the possible faults for each kind of cluster, with the frequency of each fault.
- `clients` shares connections among clients, and records their calls with the answers.
- `timer_load` and `process_load` send each planned call of a client at its time.
- `process_models` has the models of processes, and the paths through each model.
- `behaviours` lists the actions of handlers and of an endpoint.
- `app` defines the handlers. `webhooks` starts `webhook_receiver`, which is the endpoint.
- `dead_letters` redrives and discards dead letters as an operator would.
- `nemesis` injects the planned faults, and `faults` has one function for each fault.
- `sandbox` sets up Postgres, the proxy and a cluster for one run.
- `proxy` forwards the traffic between cluster and Postgres, and can cut, hold or delay the traffic, or drop a reply.
- `frames` reads the frames of Postgres's protocol for the proxy.
- `clusters` runs `shardclock up` in one of its modes, or runs only keepers, which `keeper_pool` and `worker_pool`
  start.
- `multi_host` runs a cluster on several simulated hosts, which `network` creates.
- `running` executes one run, from the first client to the last record, and `waiting` waits for conditions.
- `jobs` is a separate rig for an app's jobs.

The modules of the recording:

- `recorder` reads transactions in commit order from a logical replication slot; `pgoutput` decodes the transactions.
- `readers` runs two readers of the command log.
- `history` is the whole recording, and `history_files` saves the recording as JSON lines.

The modules of the verdict:

- `run_index` indexes a history by timer, holder and key, and `process_index` by instance, signal and task.
- `promises` has one check for each promise, and `oracle` computes the occurrences of schedules without the product's
  code.
- `fault_windows` calculates the allowed lateness during faults, and `orphaned_slots` finds slots without a shard.
- `takeover` measures the durations of takeovers and recoveries.
- `checker` gives the verdict: valid, invalid or unknown.
- `report` writes a page with a picture, which `picture` and `fault_marks` draw.
- `broken_builds` lists builds with one mistake each. `broken` runs these builds, and the checker must find each
  mistake.
- `scripted` has hand-written runs: a valid run, and violations of each promise.
"""
