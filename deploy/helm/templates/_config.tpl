{{/* roost.config: the configuration file that all processes have in common. */}}
{{- define "roost.config" -}}
{{- range $key := list "cluster.name" "journal.url" "management.listen" "tls.cert" "tls.key" "tls.ca" "tls.identity" "tls.roles" "public.cert" "public.key" }}
{{- if hasKey $.Values.config $key }}
{{- fail (printf "config: %s is set by the chart: see clusterName, journal and tls" $key) }}
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
{{- with .Values.tls }}
{{- if or .secrets.coordinator .secrets.region .secrets.gateway }}
{{- if not (and .secrets.coordinator .secrets.region .secrets.gateway) }}
{{- fail "tls.secrets: name a Secret for coordinator, region and gateway: each refuses peers without a certificate" }}
{{- end }}
tls.cert: /etc/roost-tls/tls.crt
tls.key: /etc/roost-tls/tls.key
tls.ca: /etc/roost-tls/ca.crt
tls.identity: {{ .identity | quote }}
tls.roles: {{ .roles }}
{{- end }}
{{- if .public }}
public.cert: /etc/roost-public/tls.crt
public.key: /etc/roost-public/tls.key
{{- end }}
{{- end }}
# The health probes come to the pod's address; NetworkPolicies keep others out.
management.listen: ":8558"
{{- range $key, $value := .Values.config }}
{{ $key }}: {{ toJson $value }}
{{- end }}
{{- end }}
