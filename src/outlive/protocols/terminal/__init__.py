"""What terminals say and are told: marks of the shell, commands as they are typed, a screen from bytes. Pure."""
