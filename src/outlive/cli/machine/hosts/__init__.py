"""The MCP hosts that `outlive install` knows, and how an entry is put into the text of their files."""
