{{/*
The accounts and rights in a folder of `files`, which `hotshoe rbac` printed for an installation with other names.
Usage: include "hotshoe.rights" (dict "root" $ "folder" "files/host")
*/}}
{{- define "hotshoe.rights" -}}
{{- $root := .root -}}
{{- $file := empty $root.Values.watchNamespaces | ternary "rights.json" "rights-in-one-namespace.json" -}}
{{- $text := $root.Files.Get (printf "%s/%s" .folder $file) -}}
{{- $text = replace "chart-namespace" $root.Release.Namespace $text -}}
{{- $text = replace "chart-account" (include "hotshoe.account" $root) $text -}}
{{- $watched := $root.Values.watchNamespaces | sortAlpha -}}
{{- /* What is in a watched namespace is in each of them; what is not has all of them in its name, as the host has it. */ -}}
{{- $suffix := "" -}}
{{- if eq (len $watched) 1 -}}{{- $suffix = first $watched -}}
{{- else if $watched -}}{{- $suffix = join "," $watched | sha256sum | trunc 8 -}}
{{- end -}}
{{- $items := list -}}
{{- range $object := (fromJson $text).items -}}
{{- $places := eq (default "" $object.metadata.namespace) "chart-watched" | ternary $watched (list $suffix) -}}
{{- range $places -}}
{{- $items = append $items (toJson $object | replace "chart-watched" . | fromJson) -}}
{{- end -}}
{{- end -}}
{{- $objects := dict -}}
{{- range $object := $items -}}
{{- $asked := dict "root" $root "object" $object -}}
{{- if include "hotshoe.isWanted" $asked -}}
{{- $_ := set $object.metadata "labels" (fromYaml (include "hotshoe.labels" $root)) -}}
{{- if and (include "hotshoe.isAccountOfHost" $asked) $root.Values.serviceAccount.annotations -}}
{{- $_ := set $object.metadata "annotations" $root.Values.serviceAccount.annotations -}}
{{- end -}}
{{- /* Events about objects without a namespace are in `default`: if that is watched as well, there are two Roles in it. */ -}}
{{- $key := printf "%s %s %s" $object.kind (default "" $object.metadata.namespace) $object.metadata.name -}}
{{- with get $objects $key -}}
{{- if .rules -}}{{- $_ := set $object "rules" (concat .rules $object.rules | uniq) -}}{{- end -}}
{{- end -}}
{{- $_ := set $objects $key $object -}}
{{- end -}}
{{- end -}}
{{- range $objects }}
---
{{ toYaml . }}
{{- end -}}
{{- end -}}

{{- define "hotshoe.isAccountOfHost" -}}
{{- if and (eq .object.kind "ServiceAccount") (eq .object.metadata.name (include "hotshoe.account" .root)) -}}yes{{- end -}}
{{- end -}}

{{/* Whether an object is part of the release with these values: not empty if it is. */}}
{{- define "hotshoe.isWanted" -}}
{{- $values := .root.Values -}}
{{- $name := .object.metadata.name -}}
{{- $account := include "hotshoe.account" .root -}}
{{- if eq .object.kind "Namespace" -}}
{{- else if include "hotshoe.isAccountOfHost" . -}}
{{- if $values.serviceAccount.create -}}yes{{- end -}}
{{- else if hasSuffix ".webhooks" $name -}}
{{- if and $values.webhooks.enabled (not $values.webhooks.certificateSecret) -}}yes{{- end -}}
{{- else if or (eq $name (printf "%s-metrics-auth" $account)) (eq $name (printf "%s-metrics-reader" $account)) -}}
{{- if $values.metrics.secure -}}yes{{- end -}}
{{- else -}}yes
{{- end -}}
{{- end -}}
