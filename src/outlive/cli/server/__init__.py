"""What runs outlive itself: `serve`, the MCP relay, and the verbs on the keeper."""
