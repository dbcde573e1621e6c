"""Whether the tests notice a small fault, where it would be silent: `python tests/mutants.py [MODULE ...]`.

mutmut makes the faults, one at a time, and runs the tests that reach the function; [tool.mutmut] in pyproject.toml has
modules and tests. survivors.txt has the faults that no test notices, with a reason. Another one makes the exit code 1.
"""

import os
import re
import shutil
import sys
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # each test runs in a fork, which does not have the threads of its parent

from mutmut.__main__ import cli, collect_source_file_mutation_data
from mutmut.mutation import file_mutation
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.runners.harness import PytestRunner
from mutmut.state import state
from mutmut.stats import status_by_exit_code
from mutmut.workers import isolation

ROOT = Path(__file__).parents[1]
LOUD = {"operator_string", "operator_arg_removal", "operator_dict_arguments", "operator_assignment", "operator_lambda"}
"""Kinds of faults that stop a program or change its words: None for a value, an argument less, another string."""
NOTICED = {"killed", "timeout", "segfault"}


def name(key, path):
    """A fault by its function and the changed code: what an edit elsewhere in the file does not change."""
    function = re.sub(r"__mutmut_\d+$", "", key).replace("xǁ", "").replace("ǁ", ".").replace(".x_", ".")
    diff = get_diff_for_mutant(key, path=path).splitlines()[3:]
    added = [line[1:].strip() for line in diff if line.startswith("+")]
    removed = [line[1:].strip() for line in diff if line.startswith("-")]
    change = " ".join(added)
    if not added:
        change = f"without {' '.join(removed)}"
    return f"{function}: {change}"


class QuickestFirst(PytestRunner):
    """Most faults fail the first test that reaches them, which then is a quick one."""

    def run_tests(self, *, mutant_name, tests):
        return super().run_tests(mutant_name=mutant_name, tests=sorted(tests, key=state().duration_by_test.get))


def survivors():
    """Each fault that was tried, and whether it survived."""
    mutants, _ = collect_source_file_mutation_data(mutant_names=[])
    survived = {}
    for file, key, code in mutants:
        if code is not None:
            survived[name(key, file.path)] = status_by_exit_code[code] not in NOTICED
    return survived


def main(modules):
    """Try the faults of these modules, or of all; returns 1 if one survived that is not listed."""
    os.chdir(ROOT)
    shutil.rmtree("mutants", ignore_errors=True)
    operators = file_mutation.mutation_operators
    file_mutation.mutation_operators = [operator for operator in operators if operator[1].__name__ not in LOUD]
    isolation.PytestRunner = QuickestFirst
    patterns = [f"{module}.*" for module in modules]
    cli(["run", "--max-children", "1", *patterns], standalone_mode=False)

    tried = survivors()
    listed, listed_everywhere = listed_survivors()
    new = []
    for fault, survived in tried.items():
        is_listed = fault in listed or any(part in fault for part in listed_everywhere)
        if survived and not is_listed:
            new.append(fault)
    print()
    for fault in sorted(new):
        print(f"survived, and is not in survivors.txt: {fault}")
    if not modules:
        for fault in sorted(listed):
            if not tried.get(fault):
                print(f"in survivors.txt, and does not survive: {fault}")
    print(f"{len(tried)} faults, {sum(tried.values())} survived, {len(new)} of them not listed")
    return int(bool(new))


def listed_survivors():
    """The faults in survivors.txt, and the parts of faults that may survive in any function."""
    faults = set()
    parts = []
    for line in Path(__file__).with_name("survivors.txt").read_text().splitlines():
        if line.startswith("any: "):
            parts.append(line.removeprefix("any: "))
        elif line and not line.startswith("#"):
            faults.add(line)
    return faults, parts


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
