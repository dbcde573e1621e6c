"""The page of a study of variants of a program speaks of variants, of one split, and of no search."""

import re
from dataclasses import replace

import pytest
from fabricated import Records, analysed, recorded, study, timing, with_suite
from pages import Page, rendered

from fairbench.arenas.base import ArenaFacts
from fairbench.arenas.program import TASK
from fairbench.optimizers.spec import BY_PROGRAM
from fairbench.optimizers.variant import VariantPlan
from fairbench.report.figures.canvas import titles
from fairbench.report.study import draw_figures, study_report
from fairbench.suites.compare import Compare

COMMAND = "python train.py --seed {seed} --noise {noise}"
SCORES = {"base": [0.50, 0.52, 0.54, 0.47], "wide": [0.40, 0.43, 0.44, 0.36]}
ABSENT = r"[Oo]ptimizer|[Tt]est split|test examples|[Ff]iner|search\b|[Ss]weep|mechanism|learning rate|Batch size 0"


def of_variants(*names):
    """A study of variants of a program that trains as long as it always does, without a learning rate."""
    compare = Compare(baselines=["base"])
    plain = study(("gpt",), names, seeds=(1, 2, 3, 4), reference="base", compare=compare)
    plain = replace(
        plain,
        optimizers={
            name: replace(o, factory=BY_PROGRAM, variant=VariantPlan()) for name, o in plain.optimizers.items()
        },
    )
    plans = {name: replace(plan, variant=VariantPlan()) for name, plan in plain.suite.optimizers.items()}
    metrics = {"loss": "min", "perplexity": "min", "bits_per_byte": "min"}
    facts = ArenaFacts(f"program {COMMAND}", metrics, kind="program")
    arena = replace(
        plain.suite.arenas["gpt"],
        task=TASK,
        facts=facts,
        model={"program": COMMAND, "own_length": True},
        data={},
        batch_size=0,
    )
    return with_suite(plain, optimizers=plans, arenas={"gpt": arena})


@pytest.fixture(scope="module")
def the_study():
    return of_variants(*SCORES)


@pytest.fixture(scope="module")
def page(the_study):
    no_hashes = {"result.hashes.initial_weights": "", "result.hashes.batches": "", "cost.data_on": "program"}
    return Page(rendered(the_study, Records(the_study, recorded(no_hashes), **SCORES)))


def test_it_says_nothing_of_a_search_or_of_optimizers(page):
    text = " ".join(page.text)
    shown = [text[max(found.start() - 40, 0) : found.end() + 40] for found in re.finditer(ABSENT, text)]
    assert shown == []
    assert f"Program {COMMAND}; 4 seeds in each arm" in text
    assert "It contains the variation between seeds, not" in text
    assert "Validation split, mean and standard deviation" in text


def test_it_has_the_commit_of_the_program(the_study):
    revisions = {"": "0123456789abcdef", "./other": "fedcba9876543210+changes in train.py"}
    text = rendered(replace(the_study, program_revisions=revisions), Records(the_study, **SCORES))
    assert "Program: commit 0123456789ab of its git repository when the study began." in text
    shown = "Program in ./other: commit fedcba987654 of its git repository when the study began, "
    assert f"{shown}with uncommitted changes in train.py." in text


def test_conditions_of_all_seeds_are_one_row(page):
    _, *rows = page.tables["conditions"]
    assert rows == [["gpt", "final", "1, 2, 3, 4", "2", "not shown", "not shown", "agree"]]


def test_a_program_has_no_number_of_steps_or_rows_of_a_batch(page):
    head, row = page.tables["arenas"]
    shown = dict(zip(head, row, strict=True))
    assert (shown["Steps"], shown["Batch size"]) == ("–", "–")
    assert "trains as long as it always does" in " ".join(page.text)


def test_a_timed_program_has_no_phases(the_study):
    """A step of a program is not parted into data, forward, backward and optimizer."""
    on_program = recorded({"cost.data_on": "program"})
    analyses = analysed(the_study, Records(the_study, timing(), on_program, **SCORES))
    view = study_report(analyses).tables["cost"]
    assert [column.title for column in view.columns] == [
        "Arena",
        "Variant",
        "Trials",
        "Training step, ms",
        "Peak memory, MB",
    ]
    assert "forward" not in view.caption
    (drawing,) = draw_figures(analyses, name="step_time")
    assert "forward" not in drawing.svg
    assert "forward" not in drawing.caption


def test_a_panel_has_the_name_of_the_program_and_not_its_command(the_study):
    assert titles(the_study.suite, ["gpt"]) == {"gpt": "gpt"}
    assert titles(study(("vit",)).suite, ["vit"]) == {"vit": "vit: ViT, image classification"}


def test_three_variants_without_a_comparable_time_have_one_sentence():
    several = of_variants("base", "a", "b", "c")
    said = study_report(analysed(several, Records(several))).findings["Verdicts on time"]
    assert said.startswith("all 3 of gpt: not comparable (")
    assert said.count("not comparable") == 1
