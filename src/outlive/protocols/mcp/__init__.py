"""The shapes of the MCP tools: schemas as data, argument checks, results and every literal text. Pure."""
