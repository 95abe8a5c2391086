"""How long the slowest of many took: quantiles of a histogram, as PromQL."""

# Without the timers that were overdue already when they were asked for: the objective is about the others.
FIRE_LAG = 'shardclock_fire_lag_seconds_bucket{job="$job", asked="ahead"}[$__rate_interval]'


def quantile(share: float, buckets: str, *, by: str = "le") -> str:
    """Ask below which value this share of a histogram's measurements lies.

    shape:   `buckets` is a range vector; `by` names `le` and the labels that are told apart
    """
    return f"histogram_quantile({share}, sum by ({by}) (rate({buckets})))"
