"""The terminal door part by part."""
