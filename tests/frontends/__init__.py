"""What every door stands on: guard, listening sockets, HTTP service, raw frames."""
