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
    new = [line[1:].strip() for line in diff if line.startswith("+")]
    return f"{function}: {' '.join(new or ['without', *(line[1:].strip() for line in diff if line.startswith('-'))])}"


class QuickestFirst(PytestRunner):
    """Most faults fail the first test that reaches them, which then is a quick one."""

    def run_tests(self, *, mutant_name, tests):
        return super().run_tests(mutant_name=mutant_name, tests=sorted(tests, key=state().duration_by_test.get))


def survivors():
    """Each fault that was tried, and whether it survived."""
    mutants, _ = collect_source_file_mutation_data(mutant_names=[])
    tried = [x for x in mutants if x[2] is not None]
    return {name(key, file.path): status_by_exit_code[code] not in NOTICED for file, key, code in tried}


def main(modules):
    """Try the faults of these modules, or of all; returns 1 if one survived that is not listed."""
    os.chdir(ROOT)
    shutil.rmtree("mutants", ignore_errors=True)
    file_mutation.mutation_operators = [x for x in file_mutation.mutation_operators if x[1].__name__ not in LOUD]
    isolation.PytestRunner = QuickestFirst
    cli(["run", "--max-children", "1", *(f"{module}.*" for module in modules)], standalone_mode=False)
    tried, text = survivors(), Path(__file__).with_name("survivors.txt").read_text()
    listed = {line for line in text.splitlines() if line and not line.startswith("#")}
    everywhere = [line.removeprefix("any: ") for line in listed if line.startswith("any: ")]
    new = [x for x in tried if tried[x] and x not in listed and not any(part in x for part in everywhere)]
    old = [] if modules else [x for x in listed if not x.startswith("any: ") and not tried.get(x)]
    print("", *(f"survived, and is not in survivors.txt: {x}" for x in sorted(new)), sep="\n")
    print(*(f"in survivors.txt, and does not survive: {x}" for x in sorted(old)), sep="\n")
    print(f"{len(tried)} faults, {sum(tried.values())} survived, {len(new)} of them not listed")
    return int(bool(new))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
