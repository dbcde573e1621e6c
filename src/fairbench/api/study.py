"""A study for Python: its verdicts, trials, curves, costs, audit, figures and report."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast, get_args

from markupsafe import Markup

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.audit import audit
from fairbench.analysis.comparison.requirement import met, unmet
from fairbench.analysis.comparison.size_trends import ladders
from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.statistics.scaling_law import Prediction
from fairbench.common.errors import UsageError, pick
from fairbench.common.files import write_atomically
from fairbench.report.document import Document
from fairbench.report.figures.drawing import Drawing, Form
from fairbench.report.sections import SECTIONS
from fairbench.report.sections.audit import flag_table
from fairbench.report.sections.trial_tables import CurveValue, curve_table
from fairbench.report.study import draw_figures, study_report, write_report
from fairbench.report.table import Audit, Table
from fairbench.runner.progress.watch import Preparation, StudyStatus, Watcher
from fairbench.study.snapshot import open_study


@dataclass(frozen=True, repr=False)
class Figure:
    """A figure of the report, which a notebook shows.

    Attributes:
        drawing: the finished figure; `drawing.figure` is that of matplotlib.

    >>> figure = fb.open("results/mine").figure("learning_curves")
    >>> figure
    <Figure learning_curves: Learning curves>
    """

    drawing: Drawing

    def save(self, path: str | Path) -> Path:
        """Write the figure, as a file that ends in .svg, .pdf or .png.

        Raises:
            UsageError: the file ends differently, or cannot be written.

        >>> fb.open("results/mine").figure("learning_curves").save("curves.pdf").exists()
        True
        """
        file = Path(path)
        form = file.suffix[1:]
        forms = get_args(Form)
        if form not in forms:
            raise UsageError(f"a figure is saved as {', '.join(forms)}; got {str(path)!r}")
        write_atomically(file, self.drawing.save(cast(Form, form)))
        return file

    def _repr_svg_(self) -> str:
        return self.drawing.svg

    def __repr__(self) -> str:
        return f"<Figure {self.drawing.name}: {self.drawing.title}>"


@dataclass(frozen=True)
class Page:
    """The page of a report; a notebook shows a link to it.

    Attributes:
        path: the HTML file.
        document: what it shows.

    >>> os.fspath(fb.open("results/mine").report())
    'results/mine/report.html'
    """

    path: Path
    document: Document[Any] = field(repr=False)

    @property
    def ok(self) -> bool:
        """Whether no trial failed."""
        return not self.document.failed

    def unmet(self, requirement: str) -> str:
        """A sentence on the comparisons for which a requirement does not hold; empty if it holds for each of them.

        Args:
            requirement: "better", "no-worse" (than by the margin), or "equivalent".

        >>> "is required" in fb.open("results/mine").report().unmet("better")
        True
        """
        analyses: Analyses = self.document.source
        declared = analyses.declared_comparisons
        return unmet(analyses.comparisons, requirement, analyses.suite.alpha, declared=declared)

    def met(self, requirement: str) -> str:
        """A sentence on what shows that a requirement holds, if `unmet` is empty.

        Args:
            requirement: "better", "no-worse" (than by the margin), or "equivalent".

        >>> fb.open("results/mine").report().met("equivalent").partition(":")[0]
        'equivalent holds at 0.05'
        """
        analyses: Analyses = self.document.source
        return met(analyses.comparisons, requirement, analyses.suite.alpha)

    def __rich__(self) -> Document[Any]:
        return self.document

    def __fspath__(self) -> str:
        return str(self.path)

    def _repr_html_(self) -> str:
        link = Markup('<a href="{}" target="_blank">{}</a>')
        relative = Path(os.path.relpath(self.path))
        return str(link.format(relative.as_posix(), self.path))


class Study:
    """A study as its records are when it is opened; open it again to see those that were written since.

    Args:
        directory: its output directory.

    Raises:
        UsageError: there is no study, or its configuration is damaged.

    >>> fb.open("results/mine")
    <Study results/mine of suite tiny: 10 of 10 trials>
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        self._history, self._records = open_study(self.directory)

    @property
    def status(self) -> StudyStatus | Preparation:
        """The progress of the study now, with the trials that run.

        >>> fb.open("results/mine").status.summary
        '10 of 10 trials'
        """
        return Watcher(self.directory).status()

    @property
    def complete(self) -> bool:
        """Whether every trial that can run has a record, and no process runs the study.

        >>> fb.open("results/mine").complete
        True
        """
        return self.status.complete

    @cached_property
    def analyses(self) -> Analyses:
        """Every analysis of the study: what the report is made of.

        >>> fb.open("results/mine").analyses
        <Analyses of tiny>
        """
        return Analyses(self._history, self._records)

    def table(self, name: str) -> Table[Any]:
        """A data file of the report by its name without the ending, in full, such as "aggregate" or "speedup".

        Raises:
            UsageError: there is no such file.

        >>> [row.optimizer for row in fb.open("results/mine").table("aggregate") if row.metric == "accuracy"]
        ['AdamW', 'PsiLogic']
        """
        return study_report(self.analyses).table(name)

    def verdicts(self) -> Table[Comparison]:
        """The comparisons, with the columns of significance.csv.

        >>> fb.open("results/mine").verdicts()[0].verdict
        'identical values'
        """
        return self.table("significance")

    def trials(self) -> Table[dict[str, Any]]:
        """The trials that have a record, with the columns of records.parquet.

        >>> [trial["stage"] for trial in fb.open("results/mine").trials()].count("final")
        4
        """
        return self.table("records")

    def curves(self, arena: str, metric: str) -> Table[CurveValue]:
        """The values of a metric during each training, with the columns of steps.csv.

        Args:
            arena: name of the arena.
            metric: name of the metric; "loss" is also that of the training loss, with the split "train".

        Raises:
            UsageError: there is no such arena, or it has no such metric.

        >>> curves = fb.open("results/mine").curves("vit", "accuracy")
        >>> sorted({row.step for row in curves if row.stage == "final"})
        [20, 40]
        """
        metrics = pick("arena", arena, self.analyses.results.metrics)
        pick("metric", metric, dict.fromkeys([*metrics, "loss"]))
        return curve_table(self.analyses.results, arena, metric)

    def predict(self, ladder: str, optimizer: str, parameters: float, steps: float) -> Prediction:
        """The final loss that the law of a ladder predicts; `flagged` beyond twice its largest size.

        Args:
            ladder: the name of the arena of the ladder in the suite file.
            optimizer: an optimizer whose speed-up is known.
            parameters: number of parameters of the model, as `ladder_laws.csv` counts them.
            steps: number of training steps, with the batch size of the ladder.

        Raises:
            UsageError: there is no law of such a ladder or optimizer, or the size is beyond four times the largest.

        >>> fb.open("results/mine").predict("gpt", "AdamW", 1e6, 1000)
        Traceback (most recent call last):
        fairbench.common.errors.UsageError: unknown ladder with a law 'gpt' (known: none)
        """
        laws = {name: fitted.law for name, fitted in self.analyses.of(ladders).items() if fitted.law}
        law = pick("ladder with a law", ladder, laws)
        return law.predict(parameters, steps, optimizer)

    def audit(self) -> Audit:
        """The flags that the audit raises; `ok` if none is a fail.

        >>> fb.open("results/mine").audit().ok
        True
        """
        return flag_table(self.analyses.of(audit))

    def figure(self, name: str) -> Figure:
        """A figure of the report by its name.

        Raises:
            UsageError: there is no such figure, or the study has no data for it.

        >>> fb.open("results/mine").figure("mechanism")
        <Figure mechanism: When mechanisms acted>
        """
        known = {output.name: output for section in SECTIONS for output in section.outputs if output.figure}
        pick("figure", name, known)
        drawings = draw_figures(self.analyses, name=name)
        if not drawings:
            others = ", ".join(other for other in known if other != name)
            raise UsageError(f"{self.directory} has no data for the figure {name!r}; others are: {others}")
        return Figure(drawings[0])

    def report(self, directory: str | Path | None = None, for_paper: bool = False) -> Page:
        """Write every table, figure and the page.

        Args:
            directory: where they go; None for the directory of the study.
            for_paper: whether to draw the figures in the sizes of a paper too, into `figures/paper/`.

        Returns:
            The page.

        Raises:
            UsageError: the directory cannot be written.

        >>> fb.open("results/mine").report("elsewhere").path.name
        'report.html'
        """
        folder = Path(directory or self.directory)
        report = write_report(self._history, self._records, folder, for_paper)
        return Page(report.page, report)

    def __repr__(self) -> str:
        return f"<Study {self.directory} of suite {self._history.study.suite.name}: {self.status.summary}>"


def open(directory: str | Path) -> Study:
    """Open a study to read it, also while it runs.

    Args:
        directory: its output directory.

    Raises:
        UsageError: there is no study, or its configuration is damaged.

    >>> fb.open("results/mine").directory.name
    'mine'
    """
    return Study(directory)
