"""Define the error of a cluster that can't run, in a separate module, because `cluster.running` loads many modules."""


class ClusterFailed(Exception):
    """The cluster doesn't start; the message names the failed attempts."""
