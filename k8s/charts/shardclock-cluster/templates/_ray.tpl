{{/* Builds the Ray cluster of one colour from the manifests and the values. */}}
{{- define "shardclock.ray" -}}
{{- $root := .root -}}{{- $build := .build -}}{{- $values := .root.Values -}}
{{- $paths := list "base/cluster" -}}
{{- if $values.workers.enabled -}}{{- $paths = append $paths "components/workers" -}}{{- end -}}
{{- if $values.redis.enabled -}}{{- $paths = append $paths "components/gcs-fault-tolerance" -}}{{- end -}}
{{- if $values.autoscaling.enabled -}}{{- $paths = append $paths "components/autoscaling" -}}{{- end -}}
{{- range $paths -}}
{{- include "kustomize.add" (dict "root" $root "build" $build "path" (printf "manifests/%s" .)) -}}
{{- end -}}
{{- $objects := list -}}
{{- range $object := $build.objects -}}
{{- if eq .kind "RayCluster" -}}
{{- include "shardclock.groups" (dict "root" $root "spec" .spec) -}}
{{- else -}}
{{- if and (eq .kind "NetworkPolicy") (eq .metadata.name "shardclock-workers") -}}
{{- $_ := set .spec "egress" (concat .spec.egress $values.workers.egress) -}}
{{- end -}}
{{- if and (eq .kind "NetworkPolicy") (eq .metadata.name "shardclock-autoscaler") -}}
{{- include "shardclock.allow" (dict "spec" .spec "way" "egress" "value" $values.networkPolicy.apiServer) -}}
{{- end -}}
{{- if eq .kind "PodDisruptionBudget" -}}
{{- $name := trimPrefix "shardclock-" .metadata.name -}}
{{- $group := get $values $name -}}
{{- include "shardclock.budget" (dict "name" $name "spec" .spec "value" $group.pdb "least" (default $group.replicas $group.minReplicas)) -}}
{{- end -}}
{{- $object = regexReplaceAll "(?m)ray.io/cluster: shardclock$" (toYaml .) (printf "ray.io/cluster: shardclock-%s" $values.colour) | fromYaml -}}
{{- end -}}
{{- $_ := set $object.metadata "name" (printf "%s-%s" $object.metadata.name $values.colour) -}}
{{- $objects = append $objects $object -}}
{{- end -}}
{{- $_ := set $build "objects" $objects -}}
{{- end -}}

{{/* Changes the groups of a RayCluster in place: sets sizes, images, and the values of each group. */}}
{{- define "shardclock.groups" -}}
{{- $root := .root -}}{{- $values := .root.Values -}}{{- $spec := .spec -}}
{{- $_ := set $spec.authOptions "secretName" $values.ray.authSecret -}}
{{- with $spec.gcsFaultToleranceOptions -}}
{{- $_ := set .redisPassword.valueFrom "secretKeyRef" (dict "name" $values.redis.secret.name "key" $values.redis.secret.key) -}}
{{- end -}}
{{- $name := printf "shardclock-%s" $values.colour -}}
{{- $live := lookup "ray.io/v1" "RayCluster" $root.Release.Namespace $name -}}
{{- /* A new RayCluster would adopt the ending pods of a deleted one, and its nodes would join the old head. */ -}}
{{- range ternary list (lookup "v1" "Pod" $root.Release.Namespace "").items (not (empty $live)) -}}
{{- if eq (get (default dict .metadata.labels) "ray.io/cluster") $name -}}
{{- fail (printf "pods of an earlier %s still end: wait until `kubectl get pods -l ray.io/cluster=%s` shows none" $name $name) -}}
{{- end -}}
{{- end -}}
{{- $head := $spec.headGroupSpec.template -}}
{{- $boot := first $head.spec.initContainers -}}
{{- include "shardclock.pod" (dict "root" $root "template" $head "part" $values.head) -}}
{{- $_ := set $boot "resources" (mergeOverwrite $boot.resources $values.boot.resources) -}}
{{- range $group := $spec.workerGroupSpecs -}}
{{- $part := get $values .groupName -}}
{{- include "shardclock.pod" (dict "root" $root "template" .template "part" $part) -}}
{{- $size := dict "replicas" $part.replicas "minReplicas" (default $part.replicas $part.minReplicas) "maxReplicas" (default $part.replicas $part.maxReplicas) -}}
{{- /* For a larger number, KubeRay would start only `maxReplicas` pods, without an error. */ -}}
{{- range $name := list "replicas" "minReplicas" -}}
{{- if gt (int (get $part $name)) (int $size.maxReplicas) -}}
{{- fail (printf "`%s.%s` is %v, more than `%s.maxReplicas`, %v: change one of them" $group.groupName $name (get $part $name) $group.groupName $size.maxReplicas) -}}
{{- end -}}
{{- end -}}
{{- if and $values.autoscaling.enabled (eq .groupName "shards") -}}
{{- /* Use the live number, which Ray's autoscaler has chosen; without a number, Kubernetes would set 0. */ -}}
{{- $_ := unset $size "replicas" -}}
{{- range (default dict $live.spec).workerGroupSpecs -}}
{{- if eq .groupName "shards" -}}{{- $_ := set $size "replicas" .replicas -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- $_ := mergeOverwrite . $size -}}
{{- if and $part.zoneSpread (not $part.topologySpreadConstraints) -}}
{{- $zones := deepCopy (first .template.spec.topologySpreadConstraints) -}}
{{- $_ := set $zones "topologyKey" "topology.kubernetes.io/zone" -}}
{{- $_ := set .template.spec "topologySpreadConstraints" (append .template.spec.topologySpreadConstraints $zones) -}}
{{- end -}}
{{- with $values.workers.app.image -}}
{{- if eq $group.groupName "workers" -}}
{{- range concat $group.template.spec.initContainers $group.template.spec.containers -}}{{- $_ := set . "image" $values.workers.app.image -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with $values.workers.app.image -}}
{{- $_ := set $boot "image" . -}}
{{- $_ := set $boot "env" (append $boot.env (dict "name" "SHARDCLOCK_APP" "value" $values.workers.app.modules)) -}}
{{- end -}}
{{- /* KubeRay replaces no running pod: running pods would keep their images and secrets, later pods would not. */ -}}
{{- if $live.spec -}}
{{- range $part := list "image" "secret" -}}
{{- $runs := include (printf "shardclock.%ss" $part) $live.spec -}}{{- $wanted := include (printf "shardclock.%ss" $part) $spec -}}
{{- if ne $runs $wanted -}}
{{- fail (printf "%s runs with the %s %s, and no pod of it would change to %s: install the other colour with this %s" $name $part $runs $wanted $part) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Lists the images of a RayCluster, each once. */}}
{{- define "shardclock.images" -}}
{{- $images := list -}}
{{- range append .workerGroupSpecs .headGroupSpec -}}
{{- range concat (default list .template.spec.initContainers) .template.spec.containers -}}{{- $images = append $images .image -}}{{- end -}}
{{- end -}}
{{- $images | uniq | sortAlpha | join " " -}}
{{- end -}}

{{/* Lists the secrets of a RayCluster with the DSN and with Ray's token, each once. */}}
{{- define "shardclock.secrets" -}}
{{- $secrets := list (default dict .authOptions).secretName -}}
{{- range append .workerGroupSpecs .headGroupSpec -}}
{{- range .template.spec.volumes -}}
{{- if eq .name "database" -}}{{- $secrets = append $secrets (printf "%s/%s" .secret.secretName (first .secret.items).key) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- $secrets | uniq | sortAlpha | join " " -}}
{{- end -}}
