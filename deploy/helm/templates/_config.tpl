{{/* roost.config: the configuration file that all processes have in common. */}}
{{- define "roost.config" -}}
{{- range $key := list "cluster.name" "journal.url" "journal.databases" "management.listen" }}
{{- if hasKey $.Values.config $key }}
{{- fail (printf "config: %s is set by the chart: see clusterName and journal" $key) }}
{{- end }}
{{- end -}}
cluster.name: {{ .Values.clusterName | quote }}
{{- if and .Values.journal.url .Values.journal.urlKey }}
{{- fail "journal: set either url or urlKey" }}
{{- else if .Values.journal.url }}
journal.url: {{ .Values.journal.url | quote }}
{{- else if not .Values.journal.urlKey }}
{{- fail "journal: there is no journal: set url, or urlKey to the key of the Secret whose value is the URL" }}
{{- end }}
{{- if and .Values.journal.databases .Values.journal.databasesKey }}
{{- fail "journal: set either databases or databasesKey" }}
{{- else if .Values.journal.databases }}
journal.databases: {{ toJson .Values.journal.databases }}
{{- end }}
# The health probes come to the pod's address; NetworkPolicies keep others out.
management.listen: ":8558"
{{- range $key, $value := .Values.config }}
{{ $key }}: {{ toJson $value }}
{{- end }}
{{- end }}
