"""Finding outlive on this machine: `config_files`, `state_folder` (found or created), `keeper` and `server`
(found or started).

Everything that talks to a running server stands on this: the MCP relay, the client, the command line. Knows
no protocol.
"""
