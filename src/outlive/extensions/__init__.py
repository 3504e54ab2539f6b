"""Features beside the core, a folder each; `contract` says what one brings. No other room imports one."""
