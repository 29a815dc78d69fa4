"""Spans in the words of OpenTelemetry, for those who installed the extra `otel`."""
