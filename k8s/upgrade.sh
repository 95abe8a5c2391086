#!/usr/bin/env bash
# Brings up one colour of an overlay's two Ray clusters, gives it the lead, and takes the other colour down: the first
# installation, each upgrade, and the way back, which is an upgrade to the colour you came from.
#
#   k8s/upgrade.sh OVERLAY COLOUR        k8s/upgrade.sh prod green
#
# Safe to stop and to start again at any point: each step looks first whether it is done. No timer is lost or fired
# twice wherever it stops, because the two clusters meet in Postgres.
set -euo pipefail
cd "$(dirname "$0")"

WAIT_S=${WAIT_S:-600} # for a node to be found, the image to be pulled, and Ray to start
LOOK_S=${LOOK_S:-2}   # between two looks

main() {
    [ $# -eq 2 ] || refuse 2 "say which overlay and which colour: $0 OVERLAY COLOUR, such as $0 prod green"
    overlay=$1 colour=$2
    check_overlay
    check_colour
    command -v kubectl > /dev/null || refuse 3 "kubectl is not on PATH; install it, then say this again"
    namespace=$(sed -n 's/^namespace: *//p' "overlays/$overlay/kustomization.yaml")
    new=shardclock-$colour old=shardclock-$other

    say "on $(kubectl config current-context), namespace $namespace: to the $colour Ray cluster"
    manifests=$(kubectl kustomize "overlays/$overlay/$colour")
    check_image
    check_roles
    step "what both clusters share, and the schema" share
    step "the $colour Ray cluster" apply "overlays/$overlay/$colour"
    step "its coordinator and its $keepers, standing by or serving" wait_until is_warm
    if exists raycluster "$old"; then
        step "the lead to the $colour cluster" in_cluster shardclock switch "$new" --wait 120
    fi
    step "every slot with its living $keepers" wait_until is_serving
    # Its policies are there longer than itself, if this was stopped between the two.
    if exists raycluster "$old" || exists networkpolicy "shardclock-ray-$other"; then
        step "an end to the $other Ray cluster" end_old
    fi
    tell_of_workers
    say "done: $new serves; \`kubectl -n $namespace get raycluster\` shows it"
}

check_overlay() {
    case $overlay in
        *[!a-z0-9-]* | "") refuse 2 "'$overlay' is no overlay's name: choose $(overlays)" ;;
    esac
    [ -f "overlays/$overlay/kustomization.yaml" ] || refuse 2 "there is no overlay '$overlay': choose $(overlays)"
}

check_colour() {
    case $colour in
        blue) other=green ;;
        green) other=blue ;;
        *) refuse 2 "there is no colour '$colour': choose blue or green" ;;
    esac
}

# KubeRay replaces no running pod: a cluster that is there goes on with its old image, whatever is applied.
check_image() {
    local runs wanted
    exists raycluster "$new" || return 0
    runs=$(on get raycluster "$new" --output="jsonpath={..image}" | tr ' ' '\n' | sort -u | paste -sd' ') ||
        refuse 3 "the image of the raycluster $new could not be asked: kubectl says why above; nothing was changed"
    wanted=$(sed -n 's/^ *image: *//p' <<< "$manifests" | sort -u | paste -sd' ')
    [ "$runs" = "$wanted" ] ||
        refuse 2 "$new is there already, with the image $runs, and no pod of it would change to $wanted: $(way_out)"
}

way_out() {
    if exists raycluster "$old"; then
        echo "if $old serves, \`kubectl delete -k k8s/overlays/$overlay/$colour\`, then say this again; if not, delete $old and say \`$0 $overlay $other\`"
    else
        echo "say \`$0 $overlay $other\`, which brings it up beside $new"
    fi
}

# Which keepers the new cluster has: workers only if it has pods for them. Those of an app are wanted once boot has declared
# its handlers. Without an app none are wanted, until a tenant has an endpoint. Engines run where shards do, and are wanted
# once a process is deployed: without them all instances would stand still.
check_roles() {
    case $manifests in
        *"groupName: workers"*) roles="shard worker engine" keepers="shards, workers and engines" ;;
        *) roles="shard engine" keepers="shards and engines" ;;
    esac
    case $manifests in
        *SHARDCLOCK_APP*) least_workers=1 ;;
        *) least_workers=0 ;;
    esac
}

# Nothing is lost without workers, but nothing is called either, and this may be why an upgrade is made.
tell_of_workers() {
    local wanted
    [ "$roles" = "shard engine" ] || return 0
    wanted=$(number workers_wanted "$(in_cluster shardclock status --json)")
    [ "$wanted" -eq 0 ] ||
        say "deliveries wait: $wanted workers are wanted for handlers or endpoints, and there is no pod for them; docs/operate/kubernetes.md, \"Your app\""
}

# The namespace first: without it there is nowhere to keep the secrets. One that is there keeps its labels: applied
# without them, it would lose those that it was given. The overlay's own three, PodSecurity's, come with the apply.
share() {
    exists namespace "$namespace" || kubectl create namespace "$namespace"
    check_secrets
    # A Job can't be changed, only made anew.
    on delete job shardclock-migrate --ignore-not-found --wait
    apply "overlays/$overlay"
    on wait job/shardclock-migrate --for=condition=complete --timeout="${WAIT_S}s" > /dev/null ||
        refuse 4 "the schema was not brought up to date in $WAIT_S s: \`kubectl -n $namespace logs job/shardclock-migrate\` says why"
    rolled_out shardclock-metrics
    # Those that lack a right, or their image, never serve, and the old ones go on beside them.
    ! exists deployment shardclock-gateway || rolled_out shardclock-gateway
}

rolled_out() {
    on rollout status "deployment/$1" --timeout="${WAIT_S}s" ||
        refuse 3 "$1 was not rolled out in $WAIT_S s: \`kubectl -n $namespace get pods\` shows which pod waits, and nothing was taken down"
}

check_secrets() {
    local name key
    while read -r name key; do
        has secret "$name" "jsonpath={.data.${key//./\\.}}" ||
            refuse 2 "the secret $name with the key $key is missing in namespace $namespace: make it as docs/operate/kubernetes.md says"
    done < <(grep -v '^#' "overlays/$overlay/secrets")
}

# As many actors as are wanted have registered, with slots or, while the other colour leads, without.
is_warm() { all_have '(null|[0-9])'; }

is_serving() { all_have '[0-9]'; }

# As many keepers of each role as are wanted have registered with the new cluster, and their part of the slots is such.
all_have() {
    local status role wanted least
    status=$(in_cluster shardclock status --json) || return 1
    for role in $roles; do
        wanted=$(number "${role}s_wanted" "$status")
        least=0
        [ "$role" != shard ] || least=1
        [ "$role" != worker ] || least=$least_workers
        [ "$wanted" -ge "$least" ] && [ "$(count "$role" "$1" "$status")" -ge "$wanted" ] || return 1
    done
}

count() {
    tr -d '\n' <<< "$3" | grep -oE '\{[^{}]*\}' | grep -E "\"cluster_id\": *\"$new\"" | grep -cE "\"$1\": *$2"
}

number() {
    local found
    found=$(grep -oE "\"$1\": *[0-9]+" <<< "$2" | grep -oE '[0-9]+$' | head -n 1)
    echo "${found:-0}"
}

# Its network policies last: until its pods are gone, their calls go on, and reach what those allow.
end_old() {
    on delete raycluster "$old" --ignore-not-found --wait --timeout="${WAIT_S}s"
    on wait pod --selector="ray.io/cluster=$old" --for=delete --timeout="${WAIT_S}s" ||
        refuse 3 "the new cluster serves, but pods of $old are not gone within $WAIT_S s: \`kubectl -n $namespace get pods\` shows them; of a lost node delete them with --force, and run this again"
    kubectl delete --kustomize "overlays/$overlay/$other" --ignore-not-found --wait --timeout="${WAIT_S}s"
}

wait_until() {
    local until=$((SECONDS + WAIT_S))
    until "$@"; do
        [ "$SECONDS" -lt "$until" ] ||
            refuse 3 "not within $WAIT_S s: \`kubectl -n $namespace get pods\` shows which pod waits, and nothing was taken down"
        sleep "$LOOK_S"
    done
}

apply() { kubectl apply --kustomize "$1"; }

exists() { has "$1" "$2" name; }

# A question that fails is no answer: taken for a no, it would leave out the switch, or say that all is done.
has() {
    local found
    found=$(on get "$1" "$2" --ignore-not-found --output="$3") ||
        refuse 3 "whether there is a $1 $2 could not be asked: kubectl says why above; nothing was taken down"
    [ -n "$found" ]
}

in_cluster() { on exec deployment/shardclock-metrics -- "$@"; }

on() { kubectl --namespace "$namespace" "$@"; }

step() {
    say "$1"
    shift
    "$@"
}

overlays() { (cd overlays && printf '%s\n' */ | sed 's:/$::' | paste -sd' ' | sed 's/ / or /g'); }

say() { echo "upgrade: $*"; }

refuse() {
    echo "upgrade: $2" >&2
    exit "$1"
}

main "$@"
