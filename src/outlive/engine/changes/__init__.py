"""What follows from a doorbell, from an end that was found, and from the answer to a start."""
