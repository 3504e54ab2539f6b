"""Places that a real Ray cluster leases to one server and to two, over every kill."""
