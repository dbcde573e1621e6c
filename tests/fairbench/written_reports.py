"""Reports of fabricated studies in a folder, and their files as tests read them."""

from csv_columns import rows_of
from fabricated import Records, history, study, timing
from pages import Page

from fairbench.report.study import write_report

TWO = ("AdamW", "PsiLogic")
HIGH = [0.90, 0.92, 0.91]
LOW = [0.50, 0.51, 0.52]
NOISY = [0.50, 0.60, 0.70]


TIMED = (timing(),)


def write(folder, the_study=None, scores=None, cases=TIMED):
    """Write the report of a study; by default it has two optimizers in vit, which score HIGH and LOW, and was timed."""
    if the_study is None:
        the_study = study(("vit",), ("AdamW", "PsiLogic"))
    if scores is None:
        scores = {"PsiLogic": HIGH, "AdamW": LOW}
    return write_report(history(the_study), Records(the_study, *cases, **scores), folder)


def rows(folder, name):
    """The rows of a CSV file in the folder."""
    return rows_of((folder / f"{name}.csv").read_text())


def contents(folder):
    """The bytes of each file by its path in the folder."""
    files = {}
    for path in folder.rglob("*"):
        if path.is_file():
            files[str(path.relative_to(folder))] = path.read_bytes()
    return files


def written_by(report, folder):
    """The paths of the files in the folder that a report says it wrote."""
    return {str(file.relative_to(folder)) for file in report.files}


def page(folder):
    return Page((folder / "report.html").read_text())


def text_of(folder):
    """The text of the page."""
    return " ".join(page(folder).text)
