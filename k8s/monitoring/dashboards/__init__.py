"""The dashboards as Python; `make dashboards` generates Grafana's JSON in the same folder.

spec        the parts of a dashboard
overview, shards, jobs, database   the content of each dashboard
deliveries, processes   the rows of `shards` about deliveries and about processes
gateway     the rows of `overview` about the HTTP API
quantiles   quantiles of durations, as queries
grafana     a dashboard as Grafana's JSON
"""

from k8s.monitoring.dashboards.database import DATABASE
from k8s.monitoring.dashboards.jobs import JOBS
from k8s.monitoring.dashboards.overview import OVERVIEW
from k8s.monitoring.dashboards.shards import SHARDS

DASHBOARDS = (OVERVIEW, SHARDS, JOBS, DATABASE)
