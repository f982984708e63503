"""`python -m evenstep`: the command line, where the `evenstep` script is not on the path."""

import sys

from evenstep.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
