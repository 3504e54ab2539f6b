"""No door, log or file shows a secret, whatever was killed meanwhile."""
