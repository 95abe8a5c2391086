#!/usr/bin/env bash
# Builds etcd, Kubernetes's control plane, kwok, Helm and KubeRay's operator from Go modules.
#
#   tools/kube_build.sh DIRECTORY [helm]
#
# Programs with the wanted versions are kept. With an empty cache of Go the build takes ten minutes on two idle cores.
set -euo pipefail

KUBERNETES=1.37.2 ETCD=3.7.3 KWOK=0.8.0 HELM=4.3.1
KUBERAY=1.5.0 # later versions are no Go module
export CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false"

main() {
    [ $# -ge 1 ] || { echo "say the directory of the programs: $0 DIRECTORY [helm]" >&2; exit 2; }
    programs=$1 modules=$1/modules
    mkdir -p "$modules"
    build helm "$HELM" helm helm.sh/helm/v4 /cmd/helm
    [ "${2:-}" != helm ] || return 0
    local part
    build etcd "$ETCD" etcd go.etcd.io/etcd/server/v3 .
    for part in kube-apiserver kube-controller-manager kube-scheduler; do
        build "$part" "$KUBERNETES" kubernetes k8s.io/kubernetes "/cmd/$part"
    done
    # kwok is built in the same Go module as Kubernetes, because nearly all of its packages are packages of Kubernetes.
    build kwok "$KWOK" kubernetes sigs.k8s.io/kwok /cmd/kwok
    build ray-operator "$KUBERAY" kuberay github.com/ray-project/kuberay/ray-operator .
    keep_stages
    cat "$(source_of kuberay github.com/ray-project/kuberay/ray-operator)"/config/crd/bases/*.yaml > "$programs/kuberay-crds.yaml"
}

build() {
    local name=$1 version=$2 module=$3 source=$4 package=${5#.} began=$SECONDS flags="-s -w"
    [ "$(cat "$programs/$name.version" 2> /dev/null)" != "$version" ] || return 0
    echo "building $name $version"
    mkdir -p "$modules/$module"
    (
        cd "$modules/$module"
        [ -f go.mod ] || go mod init "local/$module" 2> /dev/null
        if [ "$module" = kubernetes ]; then
            stage
            # Clients ask the program for its version, and a program that is built from a Go module has no version.
            flags="$flags -X k8s.io/component-base/version.gitVersion=v$KUBERNETES"
            flags="$flags -X k8s.io/component-base/version.gitMajor=${KUBERNETES%%.*}"
            flags="$flags -X k8s.io/component-base/version.gitMinor=$(cut -d. -f2 <<< "$KUBERNETES")"
        fi
        go get -tool "$source$package@v$version"
        nice -n 15 go build -ldflags "$flags" -o "$programs/$name" "$source$package"
    ) > "$modules/$name.log" 2>&1 || { tail -n 20 "$modules/$name.log" >&2; exit 1; }
    echo "$version" > "$programs/$name.version"
    echo "built $name $version in $((SECONDS - began)) s"
}

# In its go.mod, Kubernetes replaces some of its modules by directories. A module that requires Kubernetes can't see
# these directories, so this function replaces the modules by their releases: v0.X.Y belongs to v1.X.Y of Kubernetes.
stage() {
    local mod
    mod=$(go mod download -json "k8s.io/kubernetes@v$KUBERNETES" | sed -n 's/^\t"GoMod": "\(.*\)",$/\1/p')
    sed -n 's#^\(replace \)\?[\t ]*\(k8s\.io/[a-z0-9-]*\) => \./staging/.*#\2#p' "$mod" | sort -u |
        sed "s#.*#-replace=&=&@v0.${KUBERNETES#1.}#" | xargs go mod edit
}

source_of() { (cd "$modules/$1" && go list -m -f '{{.Dir}}' "$2"); }

# Writes the rules by which kwok makes nodes and pods ready.
keep_stages() {
    local stages file
    stages=$(source_of kubernetes sigs.k8s.io/kwok)/kustomize/stage
    for file in "$stages"/node/fast/*.yaml "$stages"/node/heartbeat-with-lease/*.yaml "$stages"/pod/fast/*.yaml; do
        [ "${file##*/}" = kustomization.yaml ] || { echo ---; cat "$file"; }
    done > "$programs/kwok-stages.yaml"
}

main "$@"
