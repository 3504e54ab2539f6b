"""The page of outlive's own: its files, and the way from `outlive ui` to a page that may see something.

Whatever the page shows it asks for at the public doors (REST, JSON-RPC, terminals), with a token, as any
other client.
"""
