{{/* Builds the Deployment of local keepers, and the policy that lets webhooks and handlers reach the internet. */}}
{{- define "shardclock.local" -}}
{{- $root := .root -}}{{- $build := .build -}}{{- $values := .root.Values -}}
{{- include "kustomize.read" (dict "root" $root "build" $build "path" "files/keepers.yaml") -}}
{{- include "kustomize.read" (dict "root" $root "build" $build "path" "manifests/components/workers/network.yaml") -}}
{{- $labels := dict "app.kubernetes.io/name" "shardclock" "app.kubernetes.io/component" "keepers" -}}
{{- range $object := $build.objects -}}
{{- if eq .kind "Deployment" -}}
{{- include "shardclock.pod" (dict "root" $root "template" .spec.template "part" $values.keepers) -}}
{{- $_ := set .spec "replicas" $values.keepers.replicas -}}
{{- /* A changed checksum restarts the pods, which read settings only at their start. */ -}}
{{- $settings := lookup "v1" "ConfigMap" $root.Release.Namespace "shardclock-settings" -}}
{{- with $settings.data -}}
{{- $metadata := $object.spec.template.metadata -}}
{{- $_ := set $metadata "annotations" (merge (dict "checksum/settings" (toYaml . | sha256sum)) (default dict $metadata.annotations)) -}}
{{- end -}}
{{- $main := first .spec.template.spec.containers -}}
{{- with $values.workers.app.image -}}
{{- $_ := set $main "image" . -}}
{{- $app := dict "name" "SHARDCLOCK_APP" "value" $values.workers.app.modules -}}
{{- include "shardclock.append" (dict "object" $main "field" "env" "key" "name" "more" (list $app)) -}}
{{- end -}}
{{- else if eq .kind "NetworkPolicy" -}}
{{- $_ := set .metadata "name" "shardclock-keepers" -}}
{{- $_ := set .spec.podSelector "matchLabels" $labels -}}
{{- $_ := set .spec "egress" (concat .spec.egress $values.workers.egress) -}}
{{- else if eq .kind "PodDisruptionBudget" -}}
{{- include "shardclock.budget" (dict "name" "keepers" "spec" .spec "value" $values.keepers.pdb "least" $values.keepers.replicas) -}}
{{- end -}}
{{- end -}}
{{- end -}}
