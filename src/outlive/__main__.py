"""`python -m outlive`: the same as the command `outlive`."""

from outlive.cli.main import main

if __name__ == "__main__":
    main()
