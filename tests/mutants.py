"""Whether the tests notice a fault: `python tests/mutants.py --all`, `--list`, or the names of some mutants.

A mutant is one small fault in the package, and the tests that must fail with it; mutants.toml has them. Each is made in
a copy of the repository, with the kernels built again where it lies in them. The exit code is 1 if one survived.
"""

import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import torch
import torch._dynamo  # as the first optimizer does

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PACKAGE = Path("src/psilogic")
PATIENCE = 900  # seconds; a mutant whose tests do not end counts as killed


def mutants() -> dict:
    """The mutants by name, each with file, old, new and tests."""
    return {x["name"]: x for x in tomllib.loads(Path(__file__).with_suffix(".toml").read_text())["mutant"]}


def copy_repository(to: Path) -> None:
    """The files that the tests need."""
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, to)
    for name in ("src", "tests", "examples"):
        shutil.copytree(ROOT / name, to / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))


def build(root: Path) -> None:
    """The kernels, for this processor only."""
    capability, setup = torch.backends.cpu.get_cpu_capability().lower(), root / "setup.py"
    text = setup.read_text().replace("in capabilities.items()", f"in [('{capability}', capabilities['{capability}'])]")
    for library in (root / PACKAGE).rglob(f"kernels_{capability}*.so"):
        library.unlink()
    setup.write_text(text)
    subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=root, check=True)
    assert list((root / PACKAGE).rglob(f"kernels_{capability}*.so")), "the kernels were not built"


def changed(root: Path, mutant: dict) -> str:
    """Make the change; returns the text as it was.

    Raises:
        ValueError: the text to be changed does not occur exactly once.
    """
    file = root / PACKAGE / mutant["file"]
    text = file.read_text()
    if text.count(mutant["old"]) != 1:
        raise ValueError(f"{mutant['name']}: its text occurs {text.count(mutant['old'])} times in {mutant['file']}")
    file.write_text(text.replace(mutant["old"], mutant["new"]))
    return text


def killed(root: Path, mutant: dict) -> str:
    """The result of a mutant: killed, SURVIVED, or how else its tests ended."""
    code, output = tested(root, ["-x", "-q", "-p", "no:cacheprovider", *shlex.split(mutant["tests"])])
    if code is None:
        return "killed: its tests do not end"
    by = re.search(r"^FAILED .*?::(.*?)( - |$)", output, re.MULTILINE)
    if code == 1 and by:
        return f"killed by {by[1]}"
    return "SURVIVED" if code == 0 else f"SURVIVED: pytest ended with {code}: {output[-500:]}"


def tested(root: Path, arguments: list) -> tuple:
    """Pytest's exit code and output in the copy; None if it did not end in time.

    It runs in a fork of this process, which has imported torch but not the package: that would take longer than most
    tests.
    """
    output = root / "output.txt"
    process = os.fork()
    if not process:
        os.setsid()
        os.chdir(root)
        with output.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os.environ |= {"PYTHONPATH": str(root / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        sys.dont_write_bytecode, sys.path[0] = True, str(root / "src")
        os._exit(int(pytest.main(arguments)))
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), output.read_text()
        time.sleep(0.05)
    os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return None, output.read_text()


def attempt(root: Path, mutant: dict) -> str:
    """Insert the fault, run its tests, and remove it."""
    file, compiled = root / PACKAGE / mutant["file"], "/cpp/" in mutant["file"]
    text = changed(root, mutant)
    try:
        if compiled:
            build(root)
        return killed(root, mutant)
    finally:
        file.write_text(text)
        if compiled:  # those of the repository, which have no fault
            for library in (ROOT / PACKAGE).rglob("*.so"):
                shutil.copy(library, root / library.relative_to(ROOT))


def main() -> int:
    """Try mutants; returns 1 if one survived."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="mutants to try")
    parser.add_argument("--all", action="store_true", help="try all")
    parser.add_argument("--list", action="store_true", help="print the names, and the tests that must fail")
    options, known = parser.parse_args(), mutants()
    if options.list:
        for name, mutant in known.items():
            print(f"{name:45} {mutant['file']:35} {mutant['tests']}")
        return 0
    if unknown := set(options.names) - set(known):
        parser.error(f"no such mutant: {', '.join(sorted(unknown))}")
    survived = []
    with tempfile.TemporaryDirectory() as folder:
        copy_repository(Path(folder))
        for name in known if options.all else options.names:
            began = time.monotonic()
            found = attempt(Path(folder), known[name])
            print(f"{name:45} {time.monotonic() - began:5.0f} s  {found}", flush=True)
            survived += [name] if found.startswith("SURVIVED") else []
    print(f"{len(survived)} survived{':' if survived else ''} {', '.join(survived)}")
    return int(bool(survived))


if __name__ == "__main__":
    sys.exit(main())
