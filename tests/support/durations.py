"""Tell how long files of tests take on two quiet cores: what begins first, and what `make check` leaves out."""

from __future__ import annotations

from pathlib import Path

# In seconds, where the marks of a file's tests would not tell.
TAKES_S = {
    "coordinator/test_ray.py": 150,
    "cluster/test_running.py": 130,
    "k8s/test_losses.py": 100,
    "k8s/test_workers.py": 80,
}
# The files whose quick tests take more than about three seconds together, by folder. All others take a minute
# together, on two cores. `--durations=0` shows which have become long.
LONG = {
    "feel": "bounds",
    "bpmn/step": "random spending",
    "chaos": "chaos plan proxy",
    "cli": (
        "audit bulk cli commands consumers database dead_letters deliveries endpoint_lengths endpoints handover "
        "incidents inspect job_making jobs keys lists output preparation release scaling schedule status streams "
        "targets tenants verbs"
    ),
    "client": "http_errors http_methods http_place http_processes http_retrying http_values outcomes",
    "client/log": "consuming consuming_trouble leasing_lost leasing_members",
    "client/sql": "alike consuming methods transactions values",
    "cluster": "exporter node shell stepping testing_jobs testing_page",
    "coordinator": "plan quarantine reconciler scaling suspension",
    "engine": (
        "business_keys cancelled_starts elements endpoints fairness families given_up hints kept_messages "
        "lane_cursors locked_waits long_steps order other_projects programs quotas races real_clock runs "
        "service_tasks signals strangers taking task_owners tasks thrown_signals unstorable"
    ),
    "gateway": (
        "audit bulk callers cluster consumers creating heads incidents instance_ends jobs keyed_lines later "
        "locked_names moves operating processes protocol quotas reference room second_wall shares stats task_lines "
        "tasks timer_ends timers unreadable"
    ),
    "k8s": "app docs image pods postgres run schemas secrets upgrade",
    "metrics": "report tables",
    "monitoring": "rules",
    "project": "benchmarks docs house",
    "service": "audit bulk_import explain job_file",
    "shards": "client_locks hold locked many_jobs metrics outages poison shard takeover wrong_clock",
    "sql": (
        "api_keys business_keys calendar claim_races conflict_races conflicts counts deliveries delivery_verbs depth "
        "empty_plans encodings endpoints fence functions given_up_in_lists groups hint_sender identity "
        "instances_by_state job_clocks_and_locks job_ends job_files job_looks job_measures job_plans job_races "
        "job_verbs jobs keys locked_deliveries log_marks log_writers migrate moved_clock page_bytes parsing "
        "plan_traps policy policy_plans process_plans queue_order quotas_of_starts requests reserved_names retention "
        "rights roles row_security run_timer run_unplanned same_call scan_window_claims schedules scheduling "
        "search_plans session settling signal_plans statement_races task_lists verb_races verbs"
    ),
    "timers": "cron cron_counts cron_oracles",
    "webhooks": "sender",
    "workers": "app locked_rows webhooks_of_worker worker",
    "workers/runs": "hints known_faults left_behind runner waiting_for_nodes",
}
LONG_FILES = frozenset(f"{folder}/test_{name}.py" for folder, names in LONG.items() for name in names.split())


def is_long(path: Path, tests: Path) -> bool:
    """Say whether a file is left to `make test`."""
    return path.is_relative_to(tests) and path.relative_to(tests).as_posix() in LONG_FILES
