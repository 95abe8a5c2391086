"""The durations of test files on two quiet cores: they decide the files' order, and which ones `make check` omits."""

from __future__ import annotations

from pathlib import Path

# In seconds, for files with tests that have no mark for it.
TAKES_S = {
    "coordinator/test_ray.py": 150,
    "cluster/test_running.py": 130,
    "k8s/test_losses.py": 100,
    "k8s/test_workers.py": 80,
}
# The files with quick tests that take more than about three seconds together, by folder. All others take one minute
# together, on two cores. `--durations=0` shows new long ones.
LONG = {
    "feel": "bounds",
    "bpmn/step": "evaluation_budget random",
    "chaos": "chaos plan proxy",
    "cli": (
        "audit bulk cli commands consumers database dead_letters deliveries endpoint_lengths endpoints handover "
        "incidents inspect job_changes jobs keys lists output preparation release scaling schedule status streams "
        "targets tenants verbs"
    ),
    "client": "http_errors http_methods http_address http_processes http_retrying http_values outcomes",
    "client/log": "consuming consuming_trouble leasing_lost leasing_members",
    "client/sql": "alike consuming methods transactions values",
    "cluster": "exporter node shell stepping testing_jobs testing_page",
    "coordinator": "plan quarantine reconciler scaling suspension two_hundred_shards",
    "engine": (
        "batch_limits business_keys cancelled_starts dead_signals elements endpoints fairness families "
        "invalid_input kept_messages lane_cursors locked_waits long_steps notifications order other_projects "
        "programs quotas races real_clock runs service_tasks signals task_owners tasks thrown_signals unstorable"
    ),
    "gateway": (
        "audit bulk callers cluster consumers creating heads incidents instance_ends jobs keyed_lines deferred "
        "locked_names moves operating processes protocol quotas reference reservation second_wall shares stats "
        "task_waiters tasks timer_ends timers unreadable"
    ),
    "k8s": "app apply chart_lookups charts docs image local pods postgres run schemas secrets upgrade",
    "metrics": "report tables",
    "monitoring": "rules",
    "project": "benchmarks docs house",
    "service": "audit bulk_import explain job_file",
    "shards": "client_locks hold locked many_jobs metrics outages poison shard takeover wrong_clock",
    "sql": (
        "api_keys business_keys calendar claim_races client_settings conflict_races conflicts counts deliveries "
        "delivery_verbs depth empty_plans encodings endpoints fence functions given_up_in_lists groups "
        "notification_sender identity instances_by_state job_clocks_and_locks job_ends job_files job_looks "
        "job_measures job_plans job_races job_verbs jobs keys locked_deliveries log_marks log_writers migrate "
        "moved_clock page_bytes parsing plan_traps policy policy_plans process_plans queue_order quotas_of_starts "
        "requests reserved_names retention rights roles row_security run_timer run_unplanned same_call "
        "scan_window_claims schedules scheduling search_plans session settling signal_plans statement_races "
        "task_lists verb_races verbs"
    ),
    "timers": "cron cron_counts cron_oracles",
    "webhooks": "sender",
    "workers": "app locked_rows webhooks_of_worker worker",
    "workers/runs": "known_faults left_behind notifications runner waiting_for_nodes",
}
LONG_FILES = frozenset(f"{folder}/test_{name}.py" for folder, names in LONG.items() for name in names.split())


def is_long(path: Path, tests: Path) -> bool:
    """Return whether only `make test` runs a file."""
    return path.is_relative_to(tests) and path.relative_to(tests).as_posix() in LONG_FILES
