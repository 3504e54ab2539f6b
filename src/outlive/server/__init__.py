"""What all frontends stand on: HTTP and WebSocket service, access, limits, error formats. Knows no frontend."""
