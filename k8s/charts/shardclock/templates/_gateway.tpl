{{- define "shardclock.gateway.metadata" -}}
name: shardclock-gateway
labels:
  app.kubernetes.io/name: shardclock
  app.kubernetes.io/component: gateway
{{- end -}}

{{/* Prints the objects of the HTTP API that only the chart has: the autoscaler, the Ingress and the HTTPRoute. */}}
{{- define "shardclock.gateway" -}}
{{- $gateway := .Values.gateway -}}
{{- if and $gateway.enabled $gateway.autoscaling.enabled }}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  {{- include "shardclock.gateway.metadata" . | nindent 2 }}
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: shardclock-gateway
  minReplicas: {{ $gateway.replicas }}
  maxReplicas: {{ $gateway.autoscaling.maxReplicas }}
  metrics:
    - type: Resource
      resource:
        name: cpu
        target:
          type: Utilization
          averageUtilization: {{ $gateway.autoscaling.cpuPercent }}
{{- end }}
{{- if and $gateway.enabled $gateway.ingress.host }}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  {{- include "shardclock.gateway.metadata" . | nindent 2 }}
  {{- with $gateway.ingress.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- with $gateway.ingress.className }}
  ingressClassName: {{ quote . }}
  {{- end }}
  {{- with $gateway.ingress.tlsSecret }}
  tls:
    - hosts:
        - {{ quote $gateway.ingress.host }}
      secretName: {{ quote . }}
  {{- end }}
  rules:
    - host: {{ quote $gateway.ingress.host }}
      http:
        paths:
          - path: /
            pathType: Prefix
            backend:
              service:
                name: shardclock-gateway
                port:
                  name: http
{{- end }}
{{- with $gateway.httpRoute }}
{{- if and $gateway.enabled .host }}
{{- if not .parents }}
{{- fail "`gateway.httpRoute.parents` is empty: name a Gateway that serves the host, or leave `gateway.httpRoute.host` empty" }}
{{- end }}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  {{- include "shardclock.gateway.metadata" $ | nindent 2 }}
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  parentRefs:
    {{- toYaml .parents | nindent 4 }}
  hostnames:
    - {{ quote .host }}
  rules:
    - matches:
        - path:
            type: PathPrefix
            value: /
      backendRefs:
        - name: shardclock-gateway
          port: {{ $gateway.service.port }}
{{- end }}
{{- end }}
{{- end -}}
