#!/usr/bin/env bash
# Starts one of two Ray clusters, blue or green, gives this cluster the lead, and removes the other cluster. The script
# serves the first installation, each upgrade, and the way back, which is an upgrade to the former colour.
#
#   k8s/upgrade.sh OVERLAY COLOUR
#   k8s/upgrade.sh prod green
#
#   k8s/upgrade.sh --helm NAMESPACE COLOUR [--release NAME] [OPTION ...] [--shared OPTION ...] [--cluster OPTION ...]
#   k8s/upgrade.sh --helm shardclock green --set image.tag=1.1.0 --cluster --set shards.replicas=5
#
# --release names the release of the chart shardclock; without it, the name is shardclock.
# The other options are Helm's --set, --values and similar options. The first options are for both charts, options after
# --shared for the chart shardclock, and options after --cluster for the chart shardclock-cluster. Other values stay
# unchanged. You can stop the script and start it again at any point: each step first checks whether it is done. If a
# helm process was killed, the script prints the command to run first. No timer is lost or fired twice, because the two
# clusters share one Postgres.
set -euo pipefail
cd "$(dirname "$0")"

WAIT_S=${WAIT_S:-600} # the time to find a node, pull the image, and start Ray
LOOK_S=${LOOK_S:-2}   # between two checks
# The fields of each head pod in kubectl's output: its UID, whether its Ray container is ready, and the time of its
# deletion.
HEADS='{range .items[*]}{.metadata.uid}/{.status.containerStatuses[?(@.name=="ray-head")].ready}/{.metadata.deletionTimestamp}{"\n"}{end}'
told= # the errors of the last failed poll

main() {
    source=kustomize
    [ "${1:-}" != --helm ] || { source=helm && shift; }
    if [ $# -lt 2 ] || { [ "$source" = kustomize ] && [ $# -gt 2 ]; }; then
        refuse 2 "say which overlay and which colour: $0 OVERLAY COLOUR, such as $0 prod green; or $0 --helm NAMESPACE COLOUR"
    fi
    overlay=$1 namespace=$1 colour=$2
    shift 2
    sort_options "$@"
    [ "$source" = helm ] || check_overlay
    check_colour
    command -v kubectl > /dev/null || refuse 3 "kubectl is not on PATH; install it, then say this again"
    new=shardclock-$colour old=shardclock-$other

    say "on $(kubectl config current-context), namespace $namespace: to the $colour Ray cluster"
    "read_$source"
    check_image
    check_roles
    step "what both clusters share, and the schema" "share_by_$source"
    step "the $colour Ray cluster" "bring_up_by_$source"
    step "its coordinator and its $keepers, standing by or serving" wait_until is_warm
    if exists raycluster "$old"; then
        step "the lead to the $colour cluster" in_cluster shardclock switch "$new" --wait 120
    fi
    step "every slot with its living $keepers" wait_until is_serving
    if exists raycluster "$old" || "outlives_by_$source"; then
        step "an end to the $other Ray cluster" end_old
    fi
    tell_of_workers
    say "done: $new serves; \`kubectl -n $namespace get raycluster\` shows it"
}

# Before Bash 4.4 an empty list is unset for `set -u`, hence `${list[@]+...}` where the script reads a list.
sort_options() {
    local option charts=both
    of_shared=() of_colour=() release_of_shared=shardclock
    while [ $# -gt 0 ]; do
        option=$1
        shift
        case $option in
            --release)
                release_of_shared=${1:-}
                [[ $release_of_shared =~ ^[a-z0-9]([a-z0-9-]{0,51}[a-z0-9])?$ ]] ||
                    refuse 2 "'$release_of_shared' is no name of a release: say --release NAME, with a name that \`helm list --namespace $namespace\` shows"
                shift
                ;;
            --shared) charts=shared ;;
            --cluster) charts=cluster ;;
            *)
                [ "$charts" = cluster ] || of_shared+=("$option")
                [ "$charts" = shared ] || of_colour+=("$option")
                ;;
        esac
    done
}

check_overlay() {
    case $overlay in
        *[!a-z0-9-]* | "") refuse 2 "'$overlay' is no overlay's name: choose $(overlays)" ;;
    esac
    [ -f "overlays/$overlay/kustomization.yaml" ] || refuse 2 "there is no overlay '$overlay': choose $(overlays)"
    namespace=$(sed -n 's/^namespace: *//p' "overlays/$overlay/kustomization.yaml")
}

check_colour() {
    case $colour in
        blue) other=green ;;
        green) other=blue ;;
        *) refuse 2 "there is no colour '$colour': choose blue or green" ;;
    esac
}

# KubeRay replaces no running pod: an existing cluster keeps its old image after an apply.
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
    local delete="kubectl delete -k k8s/overlays/$overlay/$colour" upgrade="$0 $overlay $other"
    if [ "$source" = helm ]; then
        delete="helm uninstall $new --namespace $namespace" upgrade="$0 --helm $namespace $other"
    fi
    if exists raycluster "$old"; then
        echo "if $old serves, \`$delete\`, then say this again; if not, delete $old and say \`$upgrade\`"
    else
        echo "say \`$upgrade\`, which brings it up beside $new"
    fi
}

# Sets `manifests` to the objects of the new colour.
read_kustomize() { manifests=$(kubectl kustomize "overlays/$overlay/$colour"); }

# Helm renders both charts before a change, because each chart refuses an unknown value.
read_helm() {
    local release
    command -v helm > /dev/null || refuse 3 "helm is not on PATH; install Helm 4, then say this again"
    refuse_pending
    has_release "$release_of_shared" ||
        refuse 2 "there is no release $release_of_shared in namespace $namespace: install it as docs/operate/kubernetes.md says, or name another one with --release"
    values_of_shared=$(helm_in get values "$release_of_shared" --output json)
    values="{}"
    release=$(release_with_values)
    [ -z "$release" ] || values=$(helm_in get values "$release" --output json)
    manifests=$(chart_of_colour template) || refuse_values shardclock-cluster
    chart_of_shared --dry-run=server > /dev/null || refuse_values shardclock
}

# If a helm process was killed, or lost the API server, its release stays pending, and Helm refuses each upgrade of the
# release. The helm process may still run, so the script doesn't roll back.
refuse_pending() {
    local name
    name=$(helm_in list --pending --short --filter "^($release_of_shared|shardclock-blue|shardclock-green)\$") ||
        refuse 3 "whether a release is pending could not be asked: helm says why above; nothing was changed"
    name=$(head -n 1 <<< "$name")
    [ -z "$name" ] ||
        refuse 2 "the release $name is pending: if no other helm runs, \`helm rollback $name REVISION --namespace $namespace\`, with the last revision that \`helm history $name --namespace $namespace\` shows as deployed, or without such a revision \`helm uninstall $name --namespace $namespace\`; then say this again"
}

refuse_values() {
    refuse 2 "the chart $1 refuses these values: helm says why above; nothing was changed; a value of one chart comes after --shared or --cluster"
}

# Prints the name of the release that gives the values for the upgrade: the release of this colour or, if there is none,
# of the other colour. A release without a RayCluster has outdated values, so it is the last choice.
release_with_values() {
    local name
    for name in "$new" "$old"; do
        if exists raycluster "$name" && has_release "$name"; then echo "$name" && return; fi
    done
    for name in "$new" "$old"; do
        if has_release "$name"; then echo "$name" && return; fi
    done
}

has_release() {
    local found
    found=$(helm_in list --short --filter "^$1\$") ||
        refuse 3 "whether there is a release $1 could not be asked: helm says why above; nothing was changed"
    [ -n "$found" ]
}

# Runs a command of Helm for the chart of the new colour.
chart_of_colour() {
    helm_in "$@" "$new" charts/shardclock-cluster --values - --set "colour=$colour" \
        ${of_colour[@]+"${of_colour[@]}"} <<< "$values"
}

# With --reset-then-reuse-values, a null option would have another result in the next run: the first run removes the
# release's value, and the next run removes the chart's default.
chart_of_shared() {
    helm_in upgrade "$release_of_shared" charts/shardclock --reset-values --values - "$@" \
        ${of_shared[@]+"${of_shared[@]}"} <<< "$values_of_shared"
}

# Sets `roles` to the roles of keepers for which the script waits. It waits for workers only if the cluster has pods for
# workers. With an app, the cluster wants workers once boot has declared the handlers; without an app, once a tenant has
# an endpoint. Engines run on the shards' pods, and the cluster wants engines once a process is deployed.
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

# Prints how many workers are missing. Missing workers are no failure: no delivery is lost, and the purpose of the
# upgrade may be to add pods for workers.
tell_of_workers() {
    local wanted
    [ "$roles" = "shard engine" ] || return 0
    wanted=$(number workers_wanted "$(in_cluster shardclock status --json)")
    [ "$wanted" -eq 0 ] ||
        say "deliveries wait: $wanted workers are wanted for handlers or endpoints, and there is no pod for them; docs/operate/kubernetes-app.md"
}

# The namespace comes first, because the secrets need it. The script creates only a missing namespace, so an existing
# namespace keeps its labels. The apply of the overlay then sets only the three labels of Pod Security.
share_by_kustomize() {
    exists namespace "$namespace" || kubectl create namespace "$namespace" --save-config
    check_secrets
    # Kubernetes can't change a Job.
    on delete job shardclock-migrate --ignore-not-found --wait
    apply "overlays/$overlay"
    on wait job/shardclock-migrate --for=condition=complete --timeout="${WAIT_S}s" > /dev/null ||
        refuse 4 "the schema was not brought up to date in $WAIT_S s: \`kubectl -n $namespace logs job/shardclock-migrate\` says why"
    rolled_out shardclock-metrics
    # If the new gateways lack a right or the image, they never become ready, and the old gateways continue to serve.
    ! exists deployment shardclock-gateway || rolled_out shardclock-gateway
}

# The chart names the Job after its content, so a complete Job has already migrated the schema.
share_by_helm() {
    chart_of_shared --wait --wait-for-jobs --timeout="${WAIT_S}s" > /dev/null ||
        refuse 4 "the release $release_of_shared was not upgraded in $WAIT_S s: helm says why above, and nothing was taken down"
}

rolled_out() {
    on rollout status "deployment/$1" --timeout="${WAIT_S}s" ||
        refuse 3 "$1 was not rolled out in $WAIT_S s: \`kubectl -n $namespace get pods\` shows which pod waits, and nothing was taken down"
}

check_secrets() {
    local name key
    while read -r name key; do
        has secret "$name" "jsonpath={.data.${key//./\\.}}" ||
            refuse 2 "the secret $name with the key $key is missing in namespace $namespace: make it as docs/operate/kubernetes-kustomize.md says"
    done < <(grep -v '^#' "overlays/$overlay/secrets")
}

# Succeeds if the wanted number of keepers has registered: with slots or, while the other colour leads, without slots.
is_warm() {
    find_head && [ -n "$head" ] && all_have '(null|[0-9])' && warm_head=$head
}

# Succeeds if all keepers have slots. If the head was replaced, the script ends, because the registered keepers belong
# to the former head and end soon.
is_serving() {
    find_head && [ -n "$head" ] || return 1
    [ "$head" = "$warm_head" ] ||
        refuse 3 "another head runs in $new than the one that was warm, so its keepers start again: nothing was taken down; run this again"
    all_have '[0-9]'
}

# Sets `head` to the UID of the head that runs and is not ending, or to an empty text.
find_head() {
    ask on get pods --selector="ray.io/cluster=$new,ray.io/node-type=head" --output="jsonpath=$HEADS" &&
        head=$(sed -n 's:/true/$::p' <<< "$answer")
}

# Sets `answer` to the output of a command. After a failure, prints the errors, unless they are the same as before.
ask() {
    ! answer=$("$@" 2>&1) || return 0
    [ "$answer" = "$told" ] || say "$answer"
    told=$answer
    return 1
}

# Succeeds if the wanted number of keepers of each role has registered with the new cluster, with a `part` (the keeper's
# share of the slots, or null) that matches the pattern $1.
all_have() {
    local role wanted least
    ask in_cluster shardclock status --json || return 1
    for role in $roles; do
        wanted=$(number "${role}s_wanted" "$answer")
        least=0
        [ "$role" != shard ] || least=1
        [ "$role" != worker ] || least=$least_workers
        [ "$wanted" -ge "$least" ] && [ "$(count "$role" "$1" "$answer")" -ge "$wanted" ] || return 1
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

# If a user stopped this script between the two deletions, the other objects of the old colour still exist.
outlives_by_kustomize() { exists networkpolicy "shardclock-ray-$other"; }

outlives_by_helm() { has_release "$old"; }

# The network policies are deleted last, because the calls of the old pods need them until these pods have ended.
end_old() {
    on delete raycluster "$old" --ignore-not-found --wait --timeout="${WAIT_S}s"
    on wait pod --selector="ray.io/cluster=$old" --for=delete --timeout="${WAIT_S}s" ||
        refuse 3 "the new cluster serves, but pods of $old are not gone within $WAIT_S s: \`kubectl -n $namespace get pods\` shows them; of a lost node delete them with --force, and run this again"
    if [ "$source" = helm ]; then
        helm_in uninstall "$old" --ignore-not-found --wait --timeout="${WAIT_S}s" > /dev/null
    else
        kubectl delete --kustomize "overlays/$overlay/$other" --ignore-not-found --wait --timeout="${WAIT_S}s"
    fi
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

# A new RayCluster would adopt the ending pods of a deleted RayCluster of the same name: its workers would join a head
# that ends within a minute. If Ray's autoscaler decides the number of pods, the manifests have no number, and
# Kubernetes would set the number to 0. So the script also applies the present number.
bring_up_by_kustomize() {
    local replicas=
    if exists raycluster "$new"; then
        replicas=$(on get raycluster "$new" --output="jsonpath={.spec.workerGroupSpecs[?(@.groupName==\"shards\")].replicas}") ||
            refuse 3 "the number of pods of $new could not be asked: kubectl says why above; nothing was taken down"
    else
        wait_for_end_of_pods
    fi
    if [ -n "$replicas" ] && grep -q 'enableInTreeAutoscaling: true' <<< "$manifests"; then
        sed -E "s/^( *)(- |  )groupName: shards$/&\\n\\1  replicas: $replicas/" <<< "$manifests" | kubectl apply --filename=-
    else
        apply "overlays/$overlay/$colour"
    fi
}

bring_up_by_helm() {
    exists raycluster "$new" || wait_for_end_of_pods
    chart_of_colour upgrade --install > /dev/null ||
        refuse 3 "the release $new was not installed: helm says why above, and nothing was taken down"
}

wait_for_end_of_pods() {
    on wait pod --selector="ray.io/cluster=$new" --for=delete --timeout="${WAIT_S}s" ||
        refuse 3 "pods of an earlier $new are not gone within $WAIT_S s: \`kubectl -n $namespace get pods\` shows them; nothing was taken down"
}

exists() { has "$1" "$2" name; }

# A failed request must not mean "does not exist": the script would skip the switch, or report that it is done.
has() {
    local found
    found=$(on get "$1" "$2" --ignore-not-found --output="$3") ||
        refuse 3 "whether there is a $1 $2 could not be asked: kubectl says why above; nothing was taken down"
    [ -n "$found" ]
}

in_cluster() { on exec deployment/shardclock-metrics -- "$@"; }

helm_in() { helm --namespace "$namespace" "$@"; }

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
