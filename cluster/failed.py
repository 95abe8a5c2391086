"""The error of a cluster that can't run, in a separate module, so that importing the error loads no cluster."""


class ClusterFailed(Exception):
    """The cluster doesn't start; the message names the attempts."""
