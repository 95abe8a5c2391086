"""The refusals of the log, its consumer groups, and a database on hold."""

from shardclock.api.codes import CONFLICT, NOT_ALLOWED, NOT_FOUND

UNKNOWN_GROUP = NOT_FOUND.specific(
    "unknown_group", "there is no group {group!r}: list the groups (shardclock consumers)"
)
GROUP_DIFFERS = CONFLICT.specific("group_differs", "{sentence}")
LEASE_LOST = CONFLICT.specific("lease_lost", "{why}; stop the work, and lease again")
GROUP_NOT_AT_END = CONFLICT.specific(
    "group_not_at_end",
    "partition {partition} of group {group!r} has not read record {position}, and others are at {end}: stop the"
    " members when the group has read to the end, and try again",
)
LOG_ISOLATION = CONFLICT.specific(
    "log_isolation",
    "the log can't be read in a {isolation} transaction, because its snapshot is older than the check of the writers:"
    " use read committed",
)
LOG_ON_REPLICA = CONFLICT.specific(
    "log_on_replica", "the log can't be read on a replica, which does not know the writers: read it on the primary"
)
LOG_NOT_GRANTED = NOT_ALLOWED.specific(
    "log_not_granted", "{role} may not read the log: grant select on sequence shardclock.position_seq to it"
)
LOG_MARKS_TAKEN = CONFLICT.specific(
    "log_marks_taken",
    "the log can't be written: other sessions hold all marks from {mark} down, one of them the backend with pid {pid}:"
    " end it by pg_terminate_backend",
)
NOT_RELEASED = CONFLICT.specific("not_released", "not released: {why}")
