"""The extension `observe`: notices, and telemetry."""
