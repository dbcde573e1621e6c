"""What reports say about studies: flags and findings."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from fabricated import QUANTITIES, TENSOR_STEPS, Records, analysed, mechanism, recorded, sha, study, sweep
from written_reports import HIGH, LOW, NOISY, TWO, page, text_of, write

from fairbench.analysis.audit import audit
from fairbench.report.study import study_report
from fairbench.study.resolved_suite import ResolvedSuite


@pytest.fixture(autouse=True)
def no_figures(monkeypatch):
    """Drawing takes most of a report's time."""
    monkeypatch.setattr("fairbench.report.study.draw_figures", lambda *_: [])


@dataclass(frozen=True)
class Said:
    """A study about which a report says something.

    Attributes:
        scores: of each optimizer, by seed.
        cases: of which the records differ.
    """

    name: str
    study: ResolvedSuite
    scores: Mapping[str, Sequence[Any]] | None = None
    cases: Sequence[Any] = ()


def clean_process(seed, weights):
    """A study in which a process without an optimizer starts from other weights with a seed."""
    the_study = study(("vit",))
    arena = the_study.arenas["vit"]
    starts = {**arena.starts, seed: weights}
    return replace(the_study, arenas={"vit": replace(arena, starts=starts)})


COMPLETE = Said(
    name="a complete study",
    study=study(("vit",), seeds=(1, 2, 3, 4)),
    scores={"PsiLogic": [*HIGH, 0.93], "AdamW": [0.85, 0.88, 0.89, 0.95], "Lion": [*LOW, 0.53]},
)
BEFORE_CORRECTION = Said(
    name="significant before the correction alone",
    study=study(("vit",), seeds=(1, 2, 3, 4)),
    scores={"PsiLogic": [0.50, 0.52, 0.54, 0.47], "AdamW": [0.46, 0.47, 0.47, 0.46], "Lion": [*NOISY, 0.51]},
)
INCOMPLETE = Said(
    name="an incomplete study",
    study=study(("vit",), TWO),
    scores={"PsiLogic": [0.9, "diverged", "failed"], "AdamW": [None, 0.5, 0.5]},
)
OTHER_ORDER = Said(
    name="another order of the data",
    study=study(("vit",), TWO),
    cases=[recorded({"result.hashes.batches": sha("another order")}, optimizer="AdamW", seed=2)],
)
OTHER_SWEEP = Said(
    name="sweep trials that differ from a clean process",
    study=clean_process(seed="0", weights=sha("clean")),
)
OTHER_FINALS = Said(
    name="final trials that differ from a clean process",
    study=clean_process(seed="3", weights=sha("clean")),
)
AT_THE_EDGE = Said(
    name="a selected rate at the edge",
    study=study(("vit",), TWO, budget=4),
    cases=[sweep(optimizer="AdamW", lr=1e-2, outcome=0.7), sweep(optimizer="AdamW", lr=0.1, outcome=0.8)],
)
SAYS = (COMPLETE, BEFORE_CORRECTION, INCOMPLETE, OTHER_ORDER, OTHER_SWEEP, OTHER_FINALS, AT_THE_EDGE)


def test_what_reports_say(tmp_path, check_files):
    """The flags and findings of each study."""
    said = []
    for case in SAYS:
        report = write(tmp_path / case.name, case.study, case.scores, case.cases)
        said.append(f"== {case.name} ==")
        said += [flag.text for flag in report.source.of(audit)]
        said += [f"{topic}: {text}" for topic, text in report.findings.items()]
        said.append("")
    (tmp_path / "says.txt").write_text("\n".join(said))
    check_files("report", tmp_path / "says.txt")
    text = text_of(tmp_path / "an incomplete study")
    assert "of 12 trials known to be needed, 1 missing and 1 failed." in text
    assert "failed, RuntimeError: no <luck>" in text
    assert "detected at step 5" in text
    assert "DIFFER" in page(tmp_path / "another order of the data").text
    assert "A rate beyond might be better." in text_of(tmp_path / "a selected rate at the edge")


def test_many_mechanisms_take_few_lines():
    """Every optimizer has a mechanism; that of O2 never acts."""
    never = (TENSOR_STEPS, {"a": 0.0, "b": 0.0})
    idle = {**QUANTITIES, "fired": never, "acted": never}
    names = [f"O{i}" for i in range(1, 8)]
    the_study = study(("vit",), (*names, "PsiLogic"))
    acting = recorded({"details.mechanism": mechanism(QUANTITIES)})
    not_acting = recorded({"details.mechanism": mechanism(idle)}, optimizer="O2")
    analyses = analysed(the_study, Records(the_study, acting, not_acting))
    found = study_report(analyses).findings
    assert re.findall(r"vit, (\w+): acted", found["Mechanism"]) == ["PsiLogic", "O1", "O3", "O4"]
    assert found["Mechanism"].endswith("4 other arms have one: see mechanism.csv.")
    none_acts = Records(the_study, recorded({"details.mechanism": mechanism(idle)}))
    assert study_report(analysed(the_study, none_acts)).findings["Mechanism"] == "8 arms have one: see mechanism.csv."
