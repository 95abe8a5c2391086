{{/*
Both charts render the same files as `kubectl kustomize`: k8s/base, k8s/components and k8s/monitoring. These templates
read a kustomization and add its objects to the list `.build.objects`. They print nothing, because `set` changes a dict
in place. They support only the features of kustomize that our files use; tests/k8s/test_charts.py compares the result
with the output of kustomize.
*/}}

{{/* Adds a kustomization: its resources, its components, its generated ConfigMaps, its patches and its replacements. */}}
{{- define "kustomize.add" -}}
{{- $root := .root -}}{{- $build := .build -}}{{- $path := .path -}}
{{- $found := $root.Files.Get (printf "%s/kustomization.yaml" $path) | fromYaml -}}
{{- if not $found.kind -}}{{- fail (printf "there is no kustomization in %s" $path) -}}{{- end -}}
{{- range $found.resources -}}
{{- include "kustomize.read" (dict "root" $root "build" $build "path" (clean (printf "%s/%s" $path .))) -}}
{{- end -}}
{{- range $found.components -}}
{{- include "kustomize.add" (dict "root" $root "build" $build "path" (clean (printf "%s/%s" $path .))) -}}
{{- end -}}
{{- range $found.configMapGenerator -}}
{{- $data := dict -}}
{{- range .files -}}{{- $_ := set $data (base .) ($root.Files.Get (clean (printf "%s/%s" $path .))) -}}{{- end -}}
{{- $metadata := dict "name" .name "labels" $found.generatorOptions.labels -}}
{{- $object := dict "apiVersion" "v1" "kind" "ConfigMap" "metadata" $metadata "data" $data -}}
{{- $_ := set $build "objects" (append $build.objects $object) -}}
{{- end -}}
{{- range $found.patches -}}
{{- include "kustomize.patch" (dict "objects" $build.objects "target" .target "patch" .patch) -}}
{{- end -}}
{{- range $found.replacements -}}
{{- include "kustomize.replace" (dict "objects" $build.objects "replacement" .) -}}
{{- end -}}
{{- end -}}

{{/* Adds the objects of one file. */}}
{{- define "kustomize.read" -}}
{{- $build := .build -}}
{{- range regexSplit "(?m)^---$" (.root.Files.Get .path) -1 -}}
{{- $object := fromYaml . -}}
{{- if not $object.kind -}}{{- fail (printf "there is no object in %s: %v" $.path $object) -}}{{- end -}}
{{- $_ := set $build "objects" (append $build.objects $object) -}}
{{- end -}}
{{- end -}}

{{/* Applies a patch (a part of an object, or a list of operations) to the objects that its target selects. */}}
{{- define "kustomize.patch" -}}
{{- $patch := .patch -}}{{- $target := .target -}}
{{- $part := fromYaml $patch -}}
{{- range $object := .objects -}}
{{- if and (eq $object.kind $target.kind) (eq $object.metadata.name (default $object.metadata.name $target.name)) -}}
{{- if hasKey $part "Error" -}}
{{- range fromYamlArray $patch -}}
{{- include "kustomize.operate" (dict "object" $object "operation" .) -}}
{{- end -}}
{{- else -}}
{{- $_ := mergeOverwrite $object (omit $part "metadata") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Executes one operation: add, replace or remove. */}}
{{- define "kustomize.operate" -}}
{{- $operation := .operation -}}
{{- $steps := list -}}
{{- range splitList "/" (trimPrefix "/" $operation.path) -}}{{- $steps = append $steps (replace "~1" "/" .) -}}{{- end -}}
{{- $parent := dict "object" .object "steps" (initial $steps) -}}
{{- include "kustomize.find" $parent -}}
{{- $name := last $steps -}}
{{- if eq $name "-" -}}
{{- $above := dict "object" .object "steps" (initial (initial $steps)) -}}
{{- include "kustomize.find" $above -}}
{{- $_ := set $above.found (last (initial $steps)) (append $parent.found $operation.value) -}}
{{- else if eq $operation.op "remove" -}}
{{- $_ := unset $parent.found $name -}}
{{- else -}}
{{- $_ := set $parent.found $name $operation.value -}}
{{- end -}}
{{- end -}}

{{/* Copies a field of one object into a field of the same kind of object. */}}
{{- define "kustomize.replace" -}}
{{- $objects := .objects -}}{{- $replacement := .replacement -}}
{{- range $source := $objects -}}
{{- if eq $source.kind $replacement.source.kind -}}
{{- $from := dict "object" $source "steps" (splitList "." $replacement.source.fieldPath) -}}
{{- include "kustomize.find" $from -}}
{{- range $replacement.targets -}}
{{- range .fieldPaths -}}
{{- $steps := splitList "." . -}}
{{- $to := dict "object" $source "steps" (initial $steps) -}}
{{- include "kustomize.find" $to -}}
{{- $_ := set $to.found (last $steps) (deepCopy $from.found) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Sets `.found` to the value at a path; a step is a name, an index of a list, or a condition such as [name=a]. */}}
{{- define "kustomize.find" -}}
{{- $at := .object -}}
{{- range $step := .steps -}}
{{- if hasPrefix "[" $step -}}
{{- $condition := splitList "=" (trimAll "[]" $step) -}}
{{- range $item := $at -}}{{- if eq (get $item (first $condition)) (last $condition) -}}{{- $at = $item -}}{{- end -}}{{- end -}}
{{- else if kindIs "slice" $at -}}
{{- $at = index $at (int $step) -}}
{{- else -}}
{{- $at = get $at $step -}}
{{- end -}}
{{- end -}}
{{- $_ := set . "found" $at -}}
{{- end -}}
