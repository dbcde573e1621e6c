"""`python -m fairbench.download` is `fairbench data download`."""

import sys

from fairbench.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["data", "download", *sys.argv[1:]]))
