"""xterm.js (@xterm/headless with @xterm/addon-attach) against the real server: what a person sees."""
