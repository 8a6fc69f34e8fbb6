{{/* The files of the definitions of Plugin and of the parents of enabled plugins, separated by blanks. */}}
{{- define "hotshoe.definitions" -}}
{{- $files := list -}}
{{- range $file, $_ := .Files.Glob "files/host/crds/*.yaml" -}}{{- $files = append $files $file -}}{{- end -}}
{{- range include "hotshoe.plugins" . | splitList " " | compact -}}
{{- range $file, $_ := $.Files.Glob (printf "files/plugins/%s/crds/*.yaml" .) -}}{{- $files = append $files $file -}}{{- end -}}
{{- end -}}
{{- join " " $files -}}
{{- end -}}
