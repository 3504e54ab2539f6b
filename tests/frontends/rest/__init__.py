"""Parts of the REST door on an engine of their own."""
