{{/* The values that both charts apply to each object: the image, the secrets, and the namespace. */}}

{{- define "shardclock.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository (default .Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{/* Prints the name of the secret with the DSN, and its key. */}}
{{- define "shardclock.secret" -}}
{{- printf "%s/%s" .Values.postgres.secret.name .Values.postgres.secret.key -}}
{{- end -}}

{{/* Fails if a value in plain text is a password, a token, or a DSN with a password. */}}
{{- define "shardclock.literal" -}}
{{- $value := toString (default "" .value) -}}
{{- if and $value (or (regexMatch "(?i)(password|passwd|token|secret|dsn|api_key)$" .name) (regexMatch "(?i)://[^/@ ]*:[^/@ ]+@|password=" $value)) -}}
{{- fail (printf "`%s` has %s in plain text, and each reader of the release or the pods can see it: put it into a Secret, and %s" .of .name .way) -}}
{{- end -}}
{{- end -}}

{{/* Appends to a list of an object in place; refuses a second item with one key, which the API server refuses later. */}}
{{- define "shardclock.append" -}}
{{- $field := .field -}}{{- $key := .key -}}{{- $seen := dict -}}
{{- $items := concat (default list (get .object .field)) (default list .more) -}}
{{- range $items -}}
{{- $name := get . $key -}}
{{- if hasKey $seen $name -}}
{{- fail (printf "`%s` has a second %s, which the chart or another item sets: remove it" $field $name) -}}
{{- end -}}
{{- $_ := set $seen $name true -}}
{{- end -}}
{{- if $items -}}{{- $_ := set .object .field $items -}}{{- end -}}
{{- end -}}

{{/* Changes a pod's template in place: sets images and secrets, and the values of `.part` for the first container. */}}
{{- define "shardclock.pod" -}}
{{- $values := .root.Values -}}{{- $spec := .template.spec -}}{{- $metadata := .template.metadata -}}
{{- $own := default dict (default dict .part).dsnSecret -}}
{{- $image := include "shardclock.image" .root -}}
{{- $secrets := dict "shardclock-postgres-app" $values.postgres.secret.name "shardclock-ray-auth" (default dict $values.ray).authSecret -}}
{{- $redis := $values.redis.secret -}}
{{- range concat (default list $spec.initContainers) $spec.containers -}}
{{- if eq .image "shardclock" -}}
{{- $_ := set . "image" $image -}}
{{- $_ := set . "imagePullPolicy" $values.image.pullPolicy -}}
{{- end -}}
{{- range .env -}}
{{- $reference := (default dict .valueFrom).secretKeyRef -}}
{{- if $reference -}}{{- $_ := set $reference "name" (default $reference.name (get $secrets $reference.name)) -}}{{- end -}}
{{- if eq (default "" (default dict $reference).name) "shardclock-redis" -}}
{{- $_ := set $reference "name" $redis.name -}}{{- $_ := set $reference "key" $redis.key -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $field, $value := $values.podSecurityContext -}}
{{- if kindIs "invalid" $value -}}{{- $_ := unset $spec.securityContext $field -}}{{- else -}}{{- $_ := set $spec.securityContext $field $value -}}{{- end -}}
{{- end -}}
{{- with $values.image.pullSecrets -}}{{- $_ := set $spec "imagePullSecrets" . -}}{{- end -}}
{{- range $spec.volumes -}}
{{- $secret := default dict .secret -}}
{{- if eq (default "" $secret.secretName) "shardclock-postgres-app" -}}
{{- $dsn := ternary (merge (dict) $own (dict "key" "uri")) $values.postgres.secret (not (empty $own.name)) -}}
{{- $_ := set $secret "secretName" $dsn.name -}}
{{- $_ := set (first $secret.items) "key" $dsn.key -}}
{{- else if eq (default "" $secret.secretName) "shardclock-postgres-ca" -}}
{{- $_ := set $secret "secretName" $values.postgres.ca.name -}}
{{- $_ := set (first $secret.items) "key" $values.postgres.ca.key -}}
{{- else if eq (default "" $secret.secretName) "shardclock-oidc" -}}
{{- $_ := set $secret "secretName" $values.gateway.oidc.secret.name -}}
{{- $_ := set (first $secret.items) "key" $values.gateway.oidc.secret.key -}}
{{- end -}}
{{- end -}}
{{- with .part -}}
{{- $main := first $spec.containers -}}
{{- with .resources -}}{{- $_ := set $main "resources" (mergeOverwrite (deepCopy $main.resources) .) -}}{{- end -}}
{{- range .env -}}
{{- include "shardclock.literal" (dict "of" "env" "name" .name "value" .value "way" "set `valueFrom.secretKeyRef`") -}}
{{- end -}}
{{- include "shardclock.append" (dict "object" $main "field" "env" "key" "name" "more" .env) -}}
{{- include "shardclock.append" (dict "object" $main "field" "volumeMounts" "key" "mountPath" "more" .volumeMounts) -}}
{{- include "shardclock.append" (dict "object" $spec "field" "volumes" "key" "name" "more" .volumes) -}}
{{- with .podLabels -}}{{- $_ := set $metadata "labels" (merge (deepCopy $metadata.labels) .) -}}{{- end -}}
{{- with .podAnnotations -}}{{- $_ := set $metadata "annotations" (merge (default dict $metadata.annotations) .) -}}{{- end -}}
{{- range $name := list "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" "priorityClassName" -}}
{{- with get $.part $name -}}{{- $_ := set $spec $name . -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
Changes the peers and ports of a network policy's rules; `.way` is egress or ingress. New peers replace all rules by one
rule. New ports replace the ports of each rule, with the same protocols. With `.port`, rules without this port stay
unchanged.
*/}}
{{- define "shardclock.allow" -}}
{{- $value := default dict .value -}}{{- $way := .way -}}{{- $port := .port -}}
{{- $side := ternary "to" "from" (eq $way "egress") -}}
{{- $rules := list -}}{{- $isReplaced := false -}}
{{- range default list (get .spec $way) -}}
{{- $protocols := list -}}{{- $has := not $port -}}
{{- range .ports -}}
{{- $protocols = append $protocols .protocol | uniq -}}
{{- if eq (int .port) (int $port) -}}{{- $has = true -}}{{- end -}}
{{- end -}}
{{- if and $has $value.ports -}}
{{- $ports := list -}}
{{- range $number := $value.ports -}}
{{- range $protocols -}}{{- $ports = append $ports (dict "protocol" . "port" $number) -}}{{- end -}}
{{- end -}}
{{- $_ := set . "ports" $ports -}}
{{- end -}}
{{- if not (and $has $value.peers $isReplaced) -}}
{{- if and $has $value.peers -}}{{- $_ := set . $side $value.peers -}}{{- $isReplaced = true -}}{{- end -}}
{{- $rules = append $rules . -}}
{{- end -}}
{{- end -}}
{{- if $rules -}}{{- $_ := set .spec $way $rules -}}{{- end -}}
{{- end -}}

{{/* Sets the value of a disruption budget; refuses a budget that would block each drain of a node. */}}
{{- define "shardclock.budget" -}}
{{- $value := default dict .value -}}{{- $least := int .least -}}
{{- $spec := .spec -}}
{{- range $field, $number := $value -}}
{{- $_ := unset $spec "minAvailable" -}}{{- $_ := unset $spec "maxUnavailable" -}}
{{- $_ := set $spec $field $number -}}
{{- end -}}
{{- with $spec.minAvailable -}}
{{- /* Kubernetes rounds a percentage up. */ -}}
{{- $kept := kindIs "string" . | ternary (div (add 99 (mul (trimSuffix "%" (toString .) | int) $least)) 100) (int .) -}}
{{- if ge (int $kept) $least -}}
{{- fail (printf "`%s.pdb.minAvailable` is %v of at least %d pods, so no node with such a pod could be drained: set a smaller number" $.name . $least) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Fails if the Kubernetes cluster lacks a kind of object; not checked by `helm template`, which has no cluster. */}}
{{- define "shardclock.kind" -}}
{{- $versions := .root.Capabilities.APIVersions -}}
{{- if and ($versions.Has "apps/v1/Deployment") (not ($versions.Has .kind)) -}}
{{- fail (printf "this Kubernetes cluster has no kind %s: %s" .kind .way) -}}
{{- end -}}
{{- end -}}

{{/* Prints the objects; leaves out the chart's network policies if the values disable them. */}}
{{- define "shardclock.print" -}}
{{- $root := .root -}}{{- $seen := dict -}}
{{- range .objects -}}
{{- if or $root.Values.networkPolicy.enabled (ne .kind "NetworkPolicy") (has . $root.Values.extraObjects) -}}
{{- /* Of two objects with one name, Kubernetes would keep only the last. A kind belongs to the group, not to a version. */ -}}
{{- $group := regexReplaceAll "/?[^/]*$" .apiVersion "" -}}
{{- $key := printf "%s/%s/%s/%s" $group .kind (default $root.Release.Namespace .metadata.namespace) .metadata.name -}}
{{- if hasKey $seen $key -}}
{{- fail (printf "`extraObjects` would replace the %s %s of this release: choose another name, or use the chart's values" .kind .metadata.name) -}}
{{- end -}}
{{- $_ := set $seen $key true -}}
{{- if not (has . $root.Values.extraObjects) -}}
{{- $_ := set .metadata "namespace" (default $root.Release.Namespace .metadata.namespace) -}}
{{- end -}}
{{- if $root.Values.commonLabels -}}
{{- $_ := set .metadata "labels" (merge (default dict .metadata.labels) $root.Values.commonLabels) -}}
{{- end }}
---
{{ toYaml . }}
{{- end -}}
{{- end -}}
{{- end -}}
