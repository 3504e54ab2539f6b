"""Which caller is let in, and with which rights: each request and upgrade passes here before any route.

`guard` checks Host and Origin and asks `authenticator`, which uses `peers` (facts from the kernel) and
`TokenBook` (tokens).
"""
