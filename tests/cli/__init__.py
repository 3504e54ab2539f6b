"""The command line as a user meets it: real processes, their lines and exit codes."""
