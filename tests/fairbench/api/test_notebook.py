"""The example runs in a real Jupyter kernel, and so do an edited cell and what a cell may not use.

`mini` is replaced by the tiny suite.
"""

import re
import shutil
from pathlib import Path

import pytest
from tiny import TINY

import fairbench

pytestmark = pytest.mark.xdist_group("servers")

EXAMPLE = Path(__file__).parents[3] / "examples/own_optimizer.ipynb"
QUICK = """
from pathlib import Path
from fairbench.suites import loader
loader.SUITES = Path("suites")
import fairbench.api.study  # draws the figures of the notebook
from fairbench.report import study as report
report.draw_figures = lambda *_: []
"""
EDITED = """
import json
from pathlib import Path
STRENGTH = 0.5
study = fb.run(suite.replace(optimizers=["AdamW"], reference="AdamW").with_optimizer(SignDescent).replace(
    reference="SignDescent", seeds=2, steps=10), "results/sign-descent", workers=2)
[len(study.analyses.history.plans), len([*Path("results/sign-descent/optimizers").glob("*.py")]), study.complete]
"""
REFUSED = """
noise = torch.ones(2)


class UsesATensor(SignDescent):
    def step(self, closure=None):
        return noise


try:
    fb.Suite.load("mini").with_optimizer(UsesATensor)
except fb.UsageError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """The cells of the example and of the tests, executed; only one worker needs these libraries."""
    import nbformat
    from nbclient import NotebookClient
    from nbformat.v4 import new_code_cell

    notebook = nbformat.read(EXAMPLE, as_version=4)
    notebook.cells.insert(0, new_code_cell(QUICK))  # the kernel has no fixtures
    notebook.cells += [new_code_cell(EDITED), new_code_cell(REFUSED)]
    folder = tmp_path_factory.mktemp("notebook")
    shutil.copytree(Path(fairbench.__file__).parent / "suites", folder / "suites")
    (folder / "suites" / "mini.toml").write_text(TINY)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def results(cell):
    """What a cell shows, by kind."""
    shown = {}
    for output in cell.outputs:
        shown.update(output.get("data", {}))
    return shown


def printed(cell):
    texts = [output["text"] for output in cell.outputs if output.output_type == "stream"]
    return "".join(texts)


def test_the_example_shows_tables_figures_and_a_link(cells):
    by_last_line = {cell.source.splitlines()[-1]: cell for cell in cells}
    plan = by_last_line["suite.plan()"]
    assert "12 trials; about " in results(plan)["text/plain"]
    assert len(plan.outputs) == 1
    verdicts = results(by_last_line["study.verdicts()"])
    assert "<td" in verdicts["text/html"]
    figure = results(by_last_line['study.figure("learning_curves")'])
    assert figure["image/svg+xml"].lstrip().startswith("<?xml")
    report = results(by_last_line["study.report()"])
    assert 'href="results/sign-descent/report.html"' in report["text/html"]
    for cell in cells[:-3]:
        assert "stderr" not in str(cell.outputs), cell.source


def test_the_progress_is_one_line_that_is_replaced(cells):
    """Its last state is left; before, there was a line for every 15 seconds."""
    run = next(cell for cell in cells if "fb.run(" in cell.source)
    lines = []
    for output in run.outputs:
        if output.output_type != "display_data":
            continue
        text = output.data["text/plain"]
        if "trials" in text or text == "preparing":
            lines.append(text)
    (line,) = lines
    assert re.fullmatch(r"(\d+) of \1 trials", line)


def test_an_edited_cell_is_another_optimizer(cells):
    """A new plan, and a file for each version; before, trials had the old code."""
    assert results(cells[-2])["text/plain"] == "[2, 2, True]"


def test_what_trials_cannot_load_is_refused_with_what_to_do(cells):
    expected = "UsesATensor cannot be used in trials, which run in other processes: it uses noise, of type Tensor, "
    assert printed(cells[-1]).startswith(expected)
    assert "path/to/file.py:Class" in printed(cells[-1])
