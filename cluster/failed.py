"""Why a cluster can't run; in a module of its own, so that who only names this loads no cluster."""


class ClusterFailed(Exception):
    """The cluster doesn't come up; the message says what was tried."""
