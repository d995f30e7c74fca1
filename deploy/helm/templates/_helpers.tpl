{{/* roost.labels: what the pods of a role have, and are selected by. */}}
{{- define "roost.labels" -}}
app.kubernetes.io/part-of: roost
app.kubernetes.io/name: {{ . }}
{{- end }}

{{/* roost.headless: the Service by which a role is discovered. Arguments: root, role, port. */}}
{{- define "roost.headless" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ .role }}
  namespace: {{ .root.Release.Namespace }}
  labels: {app.kubernetes.io/part-of: roost, roost-role: {{ .role }}, roost-cluster: {{ .root.Values.clusterName | quote }}}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector: {{- include "roost.labels" .role | nindent 4 }}
  ports: [{name: service, port: {{ .port }}, targetPort: service}]
{{- end }}

{{/* roost.budget: one pod of a role may be away at a time. Arguments: root, role. */}}
{{- define "roost.budget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: {{ .role }}, namespace: {{ .root.Release.Namespace }}}
spec:
  maxUnavailable: 1
  selector:
    matchLabels: {{- include "roost.labels" .role | nindent 6 }}
{{- end }}

{{/* roost.tls: the flags for certificates, as a list. Arguments: root, role. */}}
{{- define "roost.tls" -}}
{{- with .root.Values.tls }}
{{- if or .secrets.coordinator .secrets.region .secrets.gateway }}
{{- if not (and .secrets.coordinator .secrets.region .secrets.gateway) }}
{{- fail "tls.secrets: name a Secret for coordinator, region and gateway: each refuses peers without a certificate" }}
{{- end }}
- --tls.cert=/etc/roost-tls/tls.crt
- --tls.key=/etc/roost-tls/tls.key
- --tls.ca=/etc/roost-tls/ca.crt
- --tls.roles={{ .roles }}
{{- with .identity }}
- {{ printf "--tls.identity=%s" . | quote }}
{{- end }}
{{- if and (eq $.role "gateway") (not .public) }}
- --public.plain=true
{{- end }}
{{- end }}
{{- if and (eq $.role "gateway") .public }}
- --public.cert=/etc/roost-public/tls.crt
- --public.key=/etc/roost-public/tls.key
{{- end }}
{{- if and (eq $.role "gateway") .secrets.gateway }}
- --gateway.peer-listen=:25522
{{- end }}
{{- end }}
{{- end }}

{{/*
roost.pod: the template of the pods of a role. Arguments: root, role, values (of the role), port (of the service
listener), args (flags of the role), env (variables of the role), member (whether it has a journal and an address of its own).
*/}}
{{- define "roost.pod" -}}
metadata:
  labels: {{- include "roost.labels" .role | nindent 4 }}
  annotations:
    # Processes read their configuration when they start.
    checksum/config: {{ include "roost.config" .root | sha256sum }}
    {{- with .values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ .role }}
  enableServiceLinks: false # their variables look like ours
  terminationGracePeriodSeconds: {{ .root.Values.terminationGracePeriodSeconds }}
  {{- with .root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  {{- with .values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    seccompProfile: {type: RuntimeDefault}
  {{- with .values.spread }}
  topologySpreadConstraints:
    {{- range . }}
    - topologyKey: {{ .topologyKey }}
      maxSkew: 1
      whenUnsatisfiable: {{ .whenUnsatisfiable }}
      labelSelector:
        matchLabels: {{- include "roost.labels" $.role | nindent 10 }}
    {{- end }}
  {{- end }}
  {{- with .values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: {{ .role }}
      image: {{ .values.image }}
      imagePullPolicy: {{ .root.Values.imagePullPolicy }}
      {{- with .values.command }}
      command: {{- toYaml . | nindent 8 }}
      {{- end }}
      args:
        - --config=/etc/roost/roost.yaml
        {{- toYaml (concat .args (include "roost.tls" . | fromYamlArray) .values.args) | nindent 8 }}
      env:
        - name: ROOST_NODE_NAME
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        {{- with .env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- if .member }}
        - name: ROOST_NODE_ADVERTISE
          valueFrom: {fieldRef: {fieldPath: status.podIP}}
        {{- if .root.Values.journal.urlKey }}
        - {name: ROOST_JOURNAL_URL_FILE, value: {{ printf "/etc/roost-journal/%s" .root.Values.journal.urlKey }}}
        {{- end }}
        {{- if .root.Values.journal.databasesKey }}
        - {name: ROOST_JOURNAL_DATABASES_FILE, value: {{ printf "/etc/roost-journal/%s" .root.Values.journal.databasesKey }}}
        {{- end }}
        {{- end }}
        {{- with .values.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - {name: service, containerPort: {{ .port }}}
        - {name: management, containerPort: 8558}
        {{- if and (eq .role "gateway") .root.Values.tls.secrets.gateway }}
        - {name: peers, containerPort: 25522} # coordinators ask here (roost entity explain, cluster slow, cluster doctor)
        {{- end }}
      livenessProbe:
        httpGet: {path: /livez, port: management}
        timeoutSeconds: 3
      readinessProbe:
        httpGet: {path: /readyz, port: management}
        periodSeconds: 2
        timeoutSeconds: 3
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      resources: {{- toYaml .values.resources | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /etc/roost, readOnly: true}
        {{- if .member }}
        - {name: journal, mountPath: /etc/roost-journal, readOnly: true}
        {{- end }}
        {{- if eq .role "region" }}
        - {name: crash, mountPath: /var/lib/roost} # outlives a container that ends: docs/running/repair.md
        {{- end }}
        {{- if index .root.Values.tls.secrets .role }}
        - {name: tls, mountPath: /etc/roost-tls, readOnly: true}
        {{- end }}
        {{- if and .root.Values.tls.public (eq .role "gateway") }}
        - {name: public, mountPath: /etc/roost-public, readOnly: true}
        {{- end }}
        {{- with .values.volumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - {name: config, configMap: {name: roost}}
    {{- if .member }}
    - {name: journal, secret: {secretName: {{ .root.Values.journal.secret }}, defaultMode: 0440}}
    {{- end }}
    {{- if eq .role "region" }}
    - {name: crash, emptyDir: {sizeLimit: 1Mi}}
    {{- end }}
    {{- with index .root.Values.tls.secrets .role }}
    - {name: tls, secret: {secretName: {{ . }}, defaultMode: 0440}}
    {{- end }}
    {{- if and .root.Values.tls.public (eq .role "gateway") }}
    - {name: public, secret: {secretName: {{ .root.Values.tls.public }}, defaultMode: 0440}}
    {{- end }}
    {{- with .values.volumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}
