"""Clients that public generators make of the OpenAPI document, at the real server."""
