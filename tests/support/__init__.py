"""Helpers that the tests of several packages share; a folder's own fixtures are in its `conftest.py`.

Postgres:
    postgres         a server for each version, a migrated database for each test
    memory           the directory of servers' files: in memory, if there is space
    connections      ask Postgres on connections that stay open
    sql_client       call Postgres as clients do: in SQL with named arguments, or through a session
    factories        put timers and holders into a database, and read their rows and records
    scheduling       schedule one timer in SQL, and in a batch
    log_days         put records on the days of the log, and list its partitions
    log_writers      write to the command log as other programs do
    plans            count the rows that a prepared statement reads
    roles            connect with the role of least rights
    server_faults    a server near its limits: all connections taken, a write-ahead log that can't be removed
    tls              a TLS server before a Postgres that has no TLS
    statement_headers  read the header of each SQL statement

Shards and clusters:
    shard_pool       several shards in the test's own process
    separate_keeper  one keeper in a separate process
    shard_process    one shard in a separate process
    engine_process   one engine in a separate process
    fake_fleet       reconcilers on a fleet that only records
    keeper_states    the keepers of a fleet, as a plan sees them
    rays             a real Ray of several nodes
    program          the command line, in this process or in a separate one
    cli_asserts      assertions of the command line's tests
    cluster_process  one `shardclock up` with all processes that it starts
    consumers        run consumers during a test
    leases           lease batches of records, and work on them
    processes        find, freeze and kill processes of the system
    waiting          wait until a condition holds, with a time limit
    clock            a clock that a test moves
    verdict          judge a run only from its recorded rows

Workers:
    deliveries       declare handlers, make deliveries, and claim and settle them step by step
    handlers         fake handler processes
    handler_queues   the deliveries of one handler, with such processes
    working          one worker in the test's own process
    worker_process   one worker in a separate process
    jobs             describe jobs as an app declares them
    job_runs         declare jobs, and begin and end their runs step by step
    runs             fake processes of runs
    executing        act as a worker with real executors, which Ray or this worker has started
    executors        the processes of executors that a test has started
    user_actors      an actor of the user's code that runs in the test's process instead of in Ray

Webhooks:
    receivers        receive webhooks on loopback, with good and bad answers

The HTTP API:
    requests         make, begin and answer idempotent requests
    chromium         a real browser, and the faults of its pages
    console          a browser without JavaScript, for the tests of the console
    filled_console   a large database for the console
    screenshots      make the screenshots of docs/console.md
    live_pages       follow the stream of an open page
    outage           an installation with a fault in each part
    gateways         a gateway in the test's own process, and a client for it
    gateway_process  one gateway in a separate process
    lossy            a proxy that loses answers, and a server with scripted answers
    restarting       a gateway that is killed, and started again at the same port

Rules and pages:
    cron_rules       draw cron rules and zones at random, and step through a rule
    doc_blocks       find the code blocks of the README and the docs

Processes:
    feel             evaluate FEEL, always at the same moment

The suite itself:
    covered          print the coverage of each package
    durations        the test files that take long
    distributions    build distributions, and install them

Metrics:
    exporting        an exporter in the test's own process
    prometheus       a real Prometheus, and promtool
    monitored        a live cluster under load, watched by Prometheus
    pictures         make the pictures of docs/operate
    rules            the alert rules, made faster
    alert_cases      series that set off each alert

Kubernetes:
    kubectl          a fake kubectl that records its calls, and a Kubernetes of files
    manifests        the manifests, built as kubectl builds them
    kuberay          run the manifests' containers as processes of this machine
    pods             a Ray head with its boot container, and workers
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The server's packages: each is a folder at the root, and a link of its import name.
PACKAGE_NAMES = sorted(path.name for path in (ROOT / "shardclock_server").iterdir() if path.is_symlink())
