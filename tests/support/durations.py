"""The durations of test files on two quiet cores, for the order of the files and for the choice of `make check`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

# In seconds, by folder, for files with tests that take longer than other tests with the same marks.
TAKES = {
    "bpmn/step": "lookups:11",
    "cli": "backup:24 streams:23 database:15 cli:12",
    "cluster": "running:130 stand_by:120 local:42 stepping:19 testing_environment:12 testing_page:11 shell:9",
    "coordinator": "ray:150 two_hundred_shards:17",
    "demo": "run:15",
    "embedded": "server:14 reasons:11",
    "engine": "kept_messages:12 fairness:10",
    "gateway": "serving:16 timer_ends:10 creating:10 callers:10",
    "gateway/console": "browser:22",
    "k8s": "losses:100 workers:80 upgrade:24 postgres:10",
    "operate": "backup:14",
    "project": "docs:61",
    "shards": "takeover:29 shard:29 outages:26 load:22 hold:12 ramp:11 client_locks:11",
    "sql": "session:13 signal_plans:12 plans:11 measures_plans:11",
    "workers": "worker:22 hand_over:13 webhooks_of_worker:12",
    "workers/runs": "runner:20 left_behind:12",
}
# The files with quick tests that together take more than about one second of processor time, by folder: of a test's own
# process, its commands and Postgres. `--durations=0` shows new long tests.
LONG = {
    "bpmn/step": "lookups random",
    "chaos": "chaos plan proxy proxy_traps recorder",
    "cli": (
        "audit backup bulk cli commands consumers database dead_letters deliveries doctor done_already endpoints "
        "handover incidents inspect job_changes job_check jobs keys lists output pause preparation processes "
        "refused_commands release scaling schedule status streams targets tasks tenants unserved verbs"
    ),
    "client": (
        "http_address http_consume http_errors http_methods http_operating http_processes http_retrying http_sync "
        "http_values outcomes"
    ),
    "client/executor": "niceness threads",
    "client/log": "consuming consuming_trouble leasing leasing_lost leasing_members",
    "client/sql": "alike batch_bytes consuming logins methods transactions values",
    "cluster": (
        "databases exporter node preloaded scratch shell stepping testing_environment testing_jobs testing_page upgrade"
    ),
    "coordinator": (
        "drains fence hosts leadership local_fleet quarantine reconciler scaling stand_by stand_by_races stats "
        "suspension takeover_plan two_hundred_shards"
    ),
    "embedded": "server",
    "engine": (
        "business_keys cancelled_starts dead_signals elements endpoints fairness families history invalid_input "
        "kept_messages lane_cursors locked_waits long_steps newer_releases notifications order other_projects programs "
        "quotas races real_clock runs service_tasks signals task_owners tasks thrown_signals unstorable"
    ),
    "feel": "any_text bounds",
    "gateway": (
        "audit bulk callers cluster consumers creating deferred heads incidents instance_ends jobs keyed_lines limits "
        "locked_names moves notify operating operations processes protocol queries quotas reference schedule_quotas "
        "second_wall serving shares stats task_waiters tasks timer_ends timer_quotas timers unreadable waiting"
    ),
    "gateway/console": (
        "audit changes cluster dead_letters endpoints forged_sign_ins identity_provider instance_pages jobs "
        "large_database overview schedule_pages shell sign_in tasks timer_pages viewers"
    ),
    "k8s": "app apply chart_parts charts docs image local network pods postgres run schemas upgrade upgrade_helm",
    "keepers": "collector keeper life",
    "metrics": "aggregator exporter report tables",
    "monitoring": "rules",
    "operate": "backup",
    "project": "benchmarks docs house",
    "service": "audit bulk_import explain explain_delivery job_file job_runs jobs operations redriving",
    "shards": "client_locks hold locked metrics outages poison ramp shard takeover",
    "sql": (
        "api_keys audit business_keys calendar cancel_races claim_races conflict_races conflicts counts "
        "dead_letter_plans deliveries delivery_measures delivery_verbs due_lanes empty_plans encodings ended_pauses "
        "endpoints ends fence fire_due fixed_periods functions given_up_starts groups hand_over hand_over_plans "
        "identity instances_by_state job_clocks_and_locks job_files job_measures job_plans job_polls job_races "
        "job_verbs jobs keys lag locked_deliveries log log_marks log_order log_partitions log_writers measures migrate "
        "missed_choice missed_choice_races moved_clock notification_sender operator_events operators_hold parsing "
        "plan_traps policy policy_plans program_plans queue_order quotas_of_starts redriving request_slots requests "
        "reserved_names retention rights roles row_security run_timer run_without_date same_call scan_window schedules "
        "scheduling search search_plans session session_settings settling signal_plans statement_races task_lists "
        "tenants text_lengths verb_races verbs verbs_many"
    ),
    "timers": "cron cron_counts cron_oracles",
    "webhooks": "sender",
    "workers": (
        "app hand_over handler_queue handler_queue_slots interpreter lane_finder locked_rows operator_events process "
        "searches task_set webhooks_of_worker worker"
    ),
    "workers/runs": (
        "gathered_ends known_faults left_behind notifications outcome_writer prefetched_runs runner waiting_for_nodes"
    ),
}
LONG_FILES = frozenset(f"{folder}/test_{name}.py" for folder, names in LONG.items() for name in names.split())
TAKES_S = {
    f"{folder}/test_{name}.py": int(seconds)
    for folder, files in TAKES.items()
    for name, _, seconds in (file.partition(":") for file in files.split())
}


@cache  # it is asked once for each test
def is_long(path: Path, tests: Path) -> bool:
    return path.is_relative_to(tests) and path.relative_to(tests).as_posix() in LONG_FILES
