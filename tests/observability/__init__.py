"""Logs and later metrics: what operators see."""
