"""Variants of a program: the option --variant, and the tables of a suite file."""

import pytest

from fairbench.common.errors import UsageError
from fairbench.common.wording import Wording
from fairbench.optimizers.variant import VariantPlan
from fairbench.suites.loader import load_suite
from fairbench.suites.overrides import Overrides
from fairbench.suites.variants import check_different, parsed_variants

PROGRAM = "python train.py --seed {seed} --depth {depth} --out {out}"
SUITE = """
description = "two values of an option"
alpha = 0.05
[final]
seeds = [1, 2]
evaluations = 1
[training]
clip_norm = 0
warmup_steps = 0
log_every = 1
[arenas.mine]
program = "python train.py --seed {seed}"
metric = "loss"
metrics = { loss = "min" }
margin = 0.01
steps = 20
sweep_steps = 10
"""
TABLES = """
[variants.plain]
[variants.half]
args = "--dropout 0.5"
env = { OMP_NUM_THREADS = "1" }
"""


@pytest.mark.parametrize(
    ("text", "variant", "values"),
    [
        ("base", VariantPlan(), {}),
        ("flag: --clip --name 'two words'", VariantPlan(args="--clip --name 'two words'"), {}),
        ("commit: @HEAD~1", VariantPlan(revision="HEAD~1"), {}),
        ("now: @", VariantPlan(revision="@"), {}),
        ("commit and flag: @mine --clip", VariantPlan(args="--clip", revision="mine"), {}),
        ("folder: @../other", VariantPlan(folder="../other"), {}),
        ("variable: DEBUG=1 --clip", VariantPlan(args="--clip", env={"DEBUG": "1"}), {}),
        ("value: depth=12", VariantPlan(), {"depth": "12"}),
        ("hydra: model.depth=12 optimizer=adam", VariantPlan(args="model.depth=12 optimizer=adam"), {}),
        ("after the first word: --set A=1", VariantPlan(args="--set A=1"), {}),
    ],
)
def test_a_variant_on_the_command_line(text, variant, values):
    ((name, plan),) = parsed_variants([text], PROGRAM).items()
    assert name == text.partition(":")[0]
    assert (plan.variant, plan.options) == (variant, values)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["a", "a: --clip"], "two variants are called 'a'"),
        (["drop --dropout 0.2"], "has no colon after the name; write 'drop: --dropout 0.2'"),
        (["--dropout 0"], "has no colon after the name; write 'NAME: --dropout 0'"),
        (["last @HEAD~1"], "write 'last: @HEAD~1'"),
        ([": --clip"], "must have the form"),
        (["a: 'open"], "close the quotation"),
    ],
)
def test_a_variant_that_cannot_be_read(texts, message):
    with pytest.raises(UsageError, match=message):
        parsed_variants(texts, PROGRAM)


def suite_with(folder, text):
    file = folder / "mine.toml"
    file.write_text(SUITE + text)
    return load_suite(str(file))


def test_variants_of_a_suite_file_are_compared_with_the_first_and_nothing_is_searched(tmp_path):
    suite = suite_with(tmp_path, TABLES)
    assert (suite.noun, suite.reference, suite.question) == ("variant", "plain", "half against plain")
    assert suite.decides == "val"  # without a search no second split is needed
    assert suite.optimizers["half"].variant == VariantPlan(args="--dropout 0.5", env={"OMP_NUM_THREADS": "1"})


@pytest.mark.parametrize(
    ("texts", "is_refused"),
    [
        (("a", "b"), True),
        (("a: --clip", "b: --clip"), True),
        (("a: @HEAD", "b: @HEAD"), True),
        (("a", "b: AGAIN=1"), False),
        (("a", "b: depth=1"), False),
        (("a: @HEAD", "b: @main"), False),
        (("a", "b: @HEAD"), False),
        (("a: @./one", "b: @./two"), False),
    ],
)
def test_two_variants_that_are_declared_alike_are_refused(texts, is_refused):
    suite = load_suite("program", Overrides(variants=parsed_variants(texts, PROGRAM)))
    if not is_refused:
        check_different(suite)
        return
    with pytest.raises(UsageError, match="a and b have the same command, variables and code; change one"):
        check_different(suite)


def test_a_rate_in_the_command_is_searched_for_every_variant(tmp_path):
    both = TABLES.replace("[variants.plain]", "[variants.plain]\nargs = '--lr {lr}'").replace(
        "--drop", "--lr {lr} --drop"
    )
    suite = suite_with(tmp_path, both)
    assert all(plan.variant.searched for plan in suite.optimizers.values())
    assert suite.decides == "test"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TABLES + "[optimizers.AdamW]", "variants: are compared in place of optimizers"),
        (TABLES + "argument = 1", "variants.half.argument: unknown key"),
        ('[variants.plain]\nargs = "--name \'open"', "variants.plain.args: must be words of a command"),
        ("[variants.a]\nargs = '{lr}'\n[variants.b]\n", "variants.b: has no {lr}, which other variants have"),
        ("[variants.a]\nrevision = 'HEAD'\nfolder = 'x'", "variants.a.folder: does not go with a revision"),
        ("[variants.a]\nargs = '{lr}'\nvalues = { lr = 0.1 }", "variants.a.values.lr: is searched for every variant"),
        ("[variants.all]\n[variants.b]", "variants.all: must not be 'all', which stands for every variant"),
    ],
)
def test_a_wrong_table_of_variants(tmp_path, text, message):
    with pytest.raises(UsageError) as error:
        suite_with(tmp_path, text)
    assert message in str(error.value)
    assert "ptimizer" not in str(error.value).replace("in place of optimizers; leave [optimizers] out", "")


def test_the_factory_of_a_program_may_name_its_optimizer(tmp_path):
    tables = "[optimizers.plain]\nfactory = 'program:plain'\n[optimizers.half]\nfactory = 'program'\n"
    with_search = "reference = 'plain'\n" + SUITE
    file = tmp_path / "mine.toml"
    sweep = "[sweep]\nlr_min = 0.1\nlr_max = 0.3\npoints = 2\nseeds = [0]\nevaluations = 1\n"
    file.write_text(with_search + sweep + tables)
    assert load_suite(str(file)).optimizers["plain"].factory == "program"
    file.write_text(with_search + sweep + tables.replace("program:plain", "program:other"))
    with pytest.raises(UsageError, match=r"call the table \[optimizers.other\]"):
        load_suite(str(file))


def test_the_words_of_a_study_of_variants():
    wording = Wording("variant", "val", ["new optimizer"])
    text = "An optimizer beats the optimizers' baseline on the test split; new optimizer is an optimizer"
    assert wording.text(text) == (
        "A variant beats the variants' baseline on the validation split; new optimizer is a variant"
    )
    assert Wording().text(text) == text
    assert wording.column("mean_optimizer") == "mean_variant"
