"""What all frontends stand on: HTTP and WebSocket service, access, limits, error formats.

No module here imports a frontend: `app` hands in the routes, and each frontend hands in the format of its
errors.
"""
