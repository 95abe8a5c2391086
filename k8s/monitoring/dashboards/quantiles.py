"""Quantiles of a histogram, as PromQL."""

# Like the objective, the quantiles leave out timers that were already overdue when a client requested them.
FIRE_LAG = 'shardclock_fire_lag_seconds_bucket{job="$job", asked="ahead"}[$__rate_interval]'


def quantile(share: float, buckets: str, *, by: str = "le") -> str:
    """Write a query for a quantile of a histogram's measurements.

    shape:   `buckets` is a range vector; `by` names `le` and the labels of separate series
    """
    return f"histogram_quantile({share}, sum by ({by}) (rate({buckets})))"
