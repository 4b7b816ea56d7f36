"""`python -m ackwire` is the program `ackwire`."""

import sys

from ackwire.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
