"""Word of processes for people and programs elsewhere: notices on the operator's channels (`notices`), spans
and metrics for an OpenTelemetry collector (`telemetry`).

`part` is what a server gets of it. Logs, the audit log and /metrics are the core's (`observability`).
"""
