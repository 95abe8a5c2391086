"""The error of a cluster that can't run. This module is separate, because `cluster.running` loads many modules."""


class ClusterFailed(Exception):
    """The cluster doesn't start; the message names the failed attempts."""
