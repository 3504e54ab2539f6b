"""The programs that outlive is measured against, each a process of its own."""
