{{- define "hotshoe.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "hotshoe.fullname" -}}
{{- $name := include "hotshoe.name" . -}}
{{- $of := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $of .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of the host's account, from which those of its rights are made. */}}
{{- define "hotshoe.account" -}}
{{- default (include "hotshoe.fullname" .) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "hotshoe.selectorLabels" -}}
app.kubernetes.io/name: {{ include "hotshoe.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "hotshoe.labels" -}}
{{ include "hotshoe.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "hotshoe.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}{{ .repository }}@{{ .digest }}
{{- else -}}{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The names of the enabled plugins, separated by blanks. */}}
{{- define "hotshoe.plugins" -}}
{{- $names := list -}}
{{- range $name, $plugin := .Values.plugins -}}
{{- if $plugin.enabled -}}{{- $names = append $names $name -}}{{- end -}}
{{- end -}}
{{- join " " $names -}}
{{- end -}}

{{/* Not empty where the cluster has ServiceMonitors. Of a chart that is rendered without a cluster, --api-versions says so. */}}
{{- define "hotshoe.serviceMonitors" -}}
{{- $versions := .Capabilities.APIVersions -}}
{{- if or ($versions.Has "monitoring.coreos.com/v1/ServiceMonitor") ($versions.Has "monitoring.coreos.com/v1") -}}served{{- end -}}
{{- end -}}
