"""Collect metrics and serve them to Prometheus.

Each source (a shard, worker, engine, gateway or coordinator) counts its events since its start. Once a second, it sends
all counts in one datagram to the exporter of its node, over a Unix socket. A source does not wait for an answer, so a
missing exporter has no effect on firing. The exporter adds the increase since the source's last report to its totals,
reads Postgres's tables, and serves both on one port.

    family       the definition of a metric: its name, kind, labels and their possible values
    families     the metrics that the exporter reads from the tables; each kind of source declares its own metrics
    report       a source's report, and how it is sent
    buckets      the buckets of a histogram
    aggregator   the sums of all reports, and the active sources
    tables       the values that the exporter reads from Postgres, which are correct even if all shards are dead
    jobs         create the samples of jobs
    table_reader the last reading of the tables, shared by scrapes within a few seconds
    page         reports and tables in Prometheus's format
    refusals     the errors of an exporter that can't listen
    server       `/metrics`, `/healthz`, `/readyz`
    exporter     the exporter of one node: socket, tables and server

A total belongs to a series, for example to the series of shard 3, and continues when another holder takes over this
shard. The exporter removes a series that no active source reports, for example the series of a killed shard.
"""
