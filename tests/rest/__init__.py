"""The REST door over real connections, curl included."""
