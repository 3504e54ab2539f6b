"""What sets outlive up on a machine: `install`, `service`, `doctor`, and the scripts of `completion`."""
