{{/* Changes a network policy in place: sets the peers and ports from the values. */}}
{{- define "shardclock.policy" -}}
{{- $values := .root.Values -}}{{- $network := $values.networkPolicy -}}{{- $spec := .spec -}}
{{- if eq .name "shardclock-gateway" -}}
{{- $rule := first .spec.ingress -}}
{{- $_ := set $rule "from" (concat (get $rule "from") $values.gateway.clients) -}}
{{- else if eq .name "allow-dns" -}}
{{- include "shardclock.allow" (dict "spec" .spec "way" "egress" "value" $network.dns) -}}
{{- else if eq .name "allow-prometheus" -}}
{{- include "shardclock.allow" (dict "spec" .spec "way" "ingress" "value" $network.prometheus) -}}
{{- else if eq .name "shardclock-gateway-oidc" -}}
{{- include "shardclock.allow" (dict "spec" .spec "way" "egress" "value" $network.identityProvider) -}}
{{- else if and (eq .name "postgres-clients") (eq $values.postgres.mode "existing") -}}
{{- include "shardclock.allow" (dict "spec" .spec "way" "egress" "value" $network.postgres) -}}
{{- else if and (eq .name "postgres") (eq $values.postgres.mode "cloudnative-pg") -}}
{{- include "shardclock.allow" (dict "spec" .spec "way" "egress" "value" $network.apiServer "port" 443) -}}
{{- include "shardclock.allow" (dict "spec" .spec "way" "egress" "value" $network.dns "port" 53) -}}
{{- include "shardclock.allow" (dict "spec" .spec "way" "ingress" "value" $network.prometheus "port" 9187) -}}
{{- with $network.postgresOperator.peers -}}
{{- /* The servers of Postgres are also peers of this rule. */ -}}
{{- $own := list (dict "podSelector" $spec.podSelector) -}}
{{- include "shardclock.allow" (dict "spec" $spec "way" "ingress" "value" (dict "peers" (concat $own .)) "port" 8000) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Changes an object of the monitoring in place by the values, and prints the name of its part. */}}
{{- define "shardclock.monitoring" -}}
{{- $monitoring := .root.Values.monitoring -}}{{- $object := .object -}}
{{- $part := get (dict "PodMonitor" "podMonitor" "PrometheusRule" "rules") .object.kind -}}
{{- if hasPrefix "shardclock-dashboard-" .object.metadata.name -}}{{- $part = "dashboards" -}}{{- end -}}
{{- with $part -}}
{{- $value := get $monitoring . -}}
{{- $own := default dict $object.metadata.labels -}}
{{- if eq . "dashboards" -}}{{- $own = mergeOverwrite $own $value.labels -}}
{{- else -}}{{- $own = merge $own $value.labels $monitoring.labels -}}{{- end -}}
{{- $_ := set $object.metadata "labels" $own -}}
{{- range $group := ternary (default list (default dict $object.spec).groups) list (eq . "rules") -}}
{{- range $group.rules -}}
{{- with .annotations -}}
{{- /* Alertmanager and Grafana can't open a relative link. */ -}}
{{- if $value.docs -}}{{- $_ := set . "runbook_url" (printf "%s%s" $value.docs .runbook_url) -}}
{{- else -}}{{- $_ := unset . "runbook_url" -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- /* Several installations may write into one namespace, so the name has the namespace of the release. */ -}}
{{- $namespace := $.root.Release.Namespace -}}
{{- with $value.namespace -}}
{{- $_ := set $object.metadata "namespace" . -}}
{{- if ne . $namespace -}}{{- $_ := set $object.metadata "name" (printf "%s-%s" $object.metadata.name $namespace) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- $part -}}
{{- end -}}
