"""Trials that ran in different environments are compared only with a warning."""

from dataclasses import replace

import fabricated
import pyarrow.parquet
import pytest
import torch
from fabricated import Records, analysed, flags_of, history, study

from fairbench.analysis.audit import audit
from fairbench.analysis.comparability import mixtures
from fairbench.report.study import write_report
from fairbench.study.environments import environment_differences
from fairbench.training.environment import environment

pytestmark = pytest.mark.usefixtures("no_figures")
VIT_ADAMW = ("vit", "PsiLogic", "AdamW")


def elsewhere(the_study, there):
    """Records of several environments: `there(spec)` has the facts that differ."""

    def facts(spec):
        return {f"environment.{name}": value for name, value in there(spec).items()}

    return Records(the_study, fabricated.recorded(facts))


def failing(the_study, folder, there):
    records = elsewhere(the_study, there)
    written = write_report(history(the_study), records, folder)
    return [flag.text for flag in written.source.of(audit) if flag.severity == "fail"]


def mixed(the_study, there):
    return mixtures(analysed(the_study, elsewhere(the_study, there)))


def recorded(folder, name):
    """The optimizers with what their final trials recorded of their environment."""
    rows = pyarrow.parquet.read_table(folder / "records.parquet").to_pylist()
    found = set()
    for row in rows:
        if row["stage"] == "final":
            found.add((row["optimizer"], row[f"environment_{name}"]))
    return found


def test_the_same_environment_is_no_mixture():
    assert mixed(study(), lambda spec: {}) == []


def test_seeds_of_one_arm_elsewhere():
    other = {"torch": "2.12", "git": "def"}
    usual = {"torch": "2.13"}

    def there(spec):
        if spec.seed == 3 and spec.optimizer.name == "Lion":
            return other
        return usual

    (mixture,) = mixed(study(), there)
    assert mixture.facts == {"torch": ("2.12", "2.13"), "git": ("abc", "def")}
    assert mixture.comparisons == (("gpt", "PsiLogic", "Lion"), ("vit", "PsiLogic", "Lion"))
    assert mixture.confounded == ()


def test_an_arm_that_ran_on_another_machine_is_confounded(tmp_path):
    def there(spec):
        return {"device": "new" if spec.optimizer.name == "AdamW" else "old"}

    the_study = study(("vit",))
    (mixture,) = mixed(the_study, there)
    assert mixture.comparisons == (VIT_ADAMW,)
    assert mixture.confounded == (VIT_ADAMW,)
    (warning,) = failing(the_study, tmp_path, there)
    assert warning.startswith("MIXED MACHINES: Trials differ in device (new / old). Concerned: vit against AdamW.")
    assert "In vit against AdamW it depends on the optimizer" in warning
    assert recorded(tmp_path, "device") == {("AdamW", "new"), ("Lion", "old"), ("PsiLogic", "old")}


def test_of_many_values_a_few_are_listed(tmp_path):
    seven_seeds = study(("vit",), seeds=tuple(range(1, 8)))
    flags = failing(seven_seeds, tmp_path, lambda spec: {"git": str(spec.seed)})
    assert "git (0 / 1 / 2 / 3 and 4 more)" in flags[0]


def test_unverified_data_are_named(tmp_path):
    origin = {"gpt": "archive, not verified", "vit": "archive, verified"}
    flags = failing(study(), tmp_path, lambda spec: {"data": origin[spec.arena.name]})
    assert flags == ["UNVERIFIED DATA: in gpt their hash differs from the known one, or none is known."]
    assert ("AdamW", "archive, not verified") in recorded(tmp_path, "data")


def test_examples_in_two_splits_are_named():
    the_study = study(("vit",))
    arena = replace(the_study.arenas["vit"], shared="images of test also in train: 3")
    the_study = replace(the_study, arenas={"vit": arena})
    flags = flags_of(the_study, Records(the_study))
    assert flags["shared examples"] == "vit: images of test also in train: 3"


def test_a_sweep_elsewhere_concerns_the_comparison_too():
    def there(spec):
        return {"torch": "x" if spec.stage == "sweep" else "y"}

    (mixture,) = mixed(study(("vit",)), there)
    assert mixture.comparisons == (VIT_ADAMW, ("vit", "PsiLogic", "Lion"))
    assert mixture.confounded == ()


def test_another_instruction_set_is_another_environment(monkeypatch):
    here = environment("cpu")
    assert environment_differences([here], environment("cpu")) == ""
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "SSE9")
    line = environment_differences([here], environment("cpu"))
    assert line.startswith("  instruction set: ")
    assert line.endswith("; here SSE9")
