"""The verb that copies files between machines."""
