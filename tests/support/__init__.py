"""Helpers that the tests of several packages share; a folder's own fixtures are in its `conftest.py`.

Postgres:
    postgres         a server for each version, a migrated database for each test
    memory           where servers' files lie: in memory, if there is room
    connections      ask Postgres on connections that stay open
    sql_client       call Postgres as clients do: in SQL with named arguments, or through a session
    factories        put timers and holders into a database, and read what became of them
    scheduling       schedule one timer in SQL, and in a batch
    log_days         put records on the days of the log, and list its partitions
    log_writers      write to the command log as foreign code does
    plans            count the rows that a prepared statement reads
    roles            connect with the least role that is enough
    server_faults    a server near its limits: all connections taken, a write-ahead log that can't be removed
    tls              a TLS server before a Postgres that has no TLS
    statement_headers  read the header of each SQL statement

Shards and clusters:
    shard_pool       several shards in the test's own process
    shard_process    one shard in a process of its own
    engine_process   one engine in a process of its own
    fake_fleet       reconcilers on a fleet that only records
    keeper_states    the keepers of a fleet, as a plan sees them
    rays             a real Ray of several nodes
    program          the command line, in this process or in one of its own
    cli_asserts      what the tests of the command line assert
    cluster_process  one `shardclock up` with all processes that it starts
    consumers        run consumers during a test
    leases           lease batches of records, and work on them
    processes        find, freeze and kill processes of the system
    waiting          wait until a condition holds, with a time limit
    verdict          judge a run from its recorded rows alone

Workers:
    deliveries       declare handlers, make deliveries, and claim and settle them by hand
    handlers         handlers' processes that a test plays
    handler_queues   the deliveries of one handler, with such processes
    working          one worker in the test's own process
    worker_process   one worker in a process of its own
    jobs             describe jobs as an app declares them
    job_runs         declare jobs, and begin and end their runs by hand
    runs             runs' processes that a test plays
    executing        play a worker with real executors, of Ray or of its own
    executors        executors that a test has started, as the system sees them
    user_actors      an actor of the user's code in the test's process, which stands for Ray

The HTTP API:
    requests         make, begin and answer idempotent requests

Webhooks:
    receivers        receive webhooks on loopback, well or badly

The HTTP API:
    gateways         a gateway in the test's own process, and a client that asks it
    gateway_process  one gateway in a process of its own
    lossy            a proxy that loses answers, and a server that answers as it is told
    restarting       a gateway that is killed, and started again where it was

Rules and pages:
    cron_rules       draw cron rules and zones at random, and step through a rule
    doc_blocks       find the code blocks of the README and the docs

Processes:
    feel             evaluate FEEL, always at the same moment

The suite itself:
    covered          print how much of each package was run
    durations        which files of tests take long
    distributions    build distributions, and install them

Metrics:
    exporting        an exporter in the test's own process
    prometheus       a real Prometheus, and promtool
    monitored        a live cluster under load, watched by Prometheus
    pictures         make the pictures of docs/operate
    rules            the alert rules, made faster
    alert_cases      what must set off each alert

Kubernetes:
    kubectl          a kubectl that records what it is asked, before a Kubernetes that is files
    manifests        the manifests, built as kubectl builds them
    kuberay          run the manifests' containers as processes of this machine
    pods             a Ray head with its boot container, and workers
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The server's packages: each is a folder at the root, and a link of its import name.
PACKAGE_NAMES = sorted(path.name for path in (ROOT / "shardclock_server").iterdir() if path.is_symlink())
