#!/usr/bin/env bash
# Moves the work from one cluster to another cluster on the same database: for an upgrade on machines, and for the way
# back.
#
#   examples/blue-green.sh NEW START STOP
#   examples/blue-green.sh green 'systemctl start shardclock@green' 'systemctl stop shardclock@blue'
#
# NEW is the SHARDCLOCK_CLUSTER_ID of the cluster that START starts. STOP stops the old cluster. Run this script with
# the newer release's `shardclock` on PATH and with SHARDCLOCK_DSN set. If a step fails, the script ends before it stops
# the old cluster, and the old cluster continues to fire. You may repeat each step: correct the cause, and run the
# script again.
set -euo pipefail

WAIT_S=${WAIT_S:-120} # for Ray, the shards and the engines to start

main() {
    [ $# -eq 3 ] || refuse "say which cluster, how to start it, and how to stop the old one: $0 NEW START STOP"
    step "the schema" shardclock migrate
    step "the cluster $1, beside the one that fires" bash -c "$2"
    step "the lead to $1, once its shards and engines stand by" shardclock switch "$1" --wait "$WAIT_S"
    step "an end to the old cluster" bash -c "$3"
    echo "upgrade: done, $1 fires"
}

step() {
    echo "upgrade: $1"
    shift
    "$@"
}

refuse() {
    echo "upgrade: $1" >&2
    exit 2
}

main "$@"
