"""`python -m fairbench` is the `fairbench` command."""

import sys

from fairbench.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
