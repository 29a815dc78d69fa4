"""OpenTelemetry spans. They need the extra `otel`."""
