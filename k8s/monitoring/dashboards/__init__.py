"""The dashboards as Python, from which Grafana's JSON beside it is made: `make dashboards`.

spec        what a dashboard is made of
overview, shards, jobs, database   what each of them shows
deliveries  the rows of `shards` about deliveries
api         the row of `overview` about the HTTP API
quantiles   how long the slowest took, as a query
grafana     a dashboard as Grafana's JSON
"""

from k8s.monitoring.dashboards.database import DATABASE
from k8s.monitoring.dashboards.jobs import JOBS
from k8s.monitoring.dashboards.overview import OVERVIEW
from k8s.monitoring.dashboards.shards import SHARDS

DASHBOARDS = (OVERVIEW, SHARDS, JOBS, DATABASE)
