"""Make a virtual environment with pip, also where Debian ships python3 without ensurepip.

Usage: python3 make_venv.py DIR
"""

import hashlib
import importlib.util
import json
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
import venv
from pathlib import Path

PIP_FACTS = "https://pypi.org/pypi/pip/json"


def download_pip(folder: Path) -> Path:
    """Fetch pip's newest wheel from PyPI and check it against the digest that PyPI states."""
    with urllib.request.urlopen(PIP_FACTS) as reply:
        files = json.load(reply)["urls"]
    wheel = next(file for file in files if file["packagetype"] == "bdist_wheel")
    with urllib.request.urlopen(urllib.parse.urljoin(PIP_FACTS, wheel["url"])) as reply:
        content = reply.read()
    if hashlib.sha256(content).hexdigest() != wheel["digests"]["sha256"]:
        sys.exit(f"{wheel['filename']}: the download does not match PyPI's sha256; try again")
    path = folder / wheel["filename"]
    path.write_bytes(content)
    return path


def main(directory: str) -> None:
    """Create the environment; where ensurepip is missing, install pip from its own wheel."""
    has_ensurepip = importlib.util.find_spec("ensurepip") is not None
    venv.create(directory, with_pip=has_ensurepip, symlinks=True, clear=True)
    if not has_ensurepip:
        with tempfile.TemporaryDirectory() as folder:
            wheel = download_pip(Path(folder))
            python = Path(directory) / "bin" / "python"
            subprocess.run([python, f"{wheel}/pip", "install", "--quiet", "--no-index", wheel], check=True)


if __name__ == "__main__":
    main(sys.argv[1])
