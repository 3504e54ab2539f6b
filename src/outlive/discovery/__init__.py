"""What of outlive is there on this machine: `config_files`, `state_folder`, found or made, and `server`, found or started.

Below everything that talks to a running server (the MCP relay, the client, the command line); knows no protocol.
"""
