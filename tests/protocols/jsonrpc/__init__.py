"""JSON-RPC as bytes: requests, parameters, answers, output."""
