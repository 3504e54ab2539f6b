"""Which caller is let in, and with which rights: each request and upgrade passes here before any route."""
