"""Trials that ran in different environments are compared only with a warning."""

from fabricated import Records, finals, history, study

from fairbench.analysis.comparability import mixtures
from fairbench.analysis.results import collect
from fairbench.report import write_report
from fairbench.study.environments import environment_differences

VIT_ADAMW = ("vit", "PsiLogic", "AdamW")


class Elsewhere(Records):
    """Records of which some were made with other versions: `there(spec)` says what is not as usual."""

    def __init__(self, scores, there):
        super().__init__(scores)
        self.there = there

    def record(self, spec, outcome):
        record = super().record(spec, outcome)
        return {**record, "environment": {**record["environment"], **self.there(spec)}}


def failing(report):
    return [flag.text for flag in report.analyses.flags if flag.severity == "fail"]


def found(the_study, there):
    records = Elsewhere(finals(the_study), there)
    return mixtures(collect(the_study, records)), records


def test_the_same_environment_is_no_mixture():
    assert found(study(), lambda spec: {})[0] == []


def test_seeds_of_one_arm_elsewhere():
    other = {"torch": "2.12", "git": "def"}
    mixed, _ = found(study(), lambda s: other if s.seed == 3 and s.optimizer.name == "Lion" else {"torch": "2.13"})
    (mixture,) = mixed
    assert mixture.facts == {"torch": ("2.12", "2.13"), "git": ("abc", "def")}
    assert mixture.comparisons == (("gpt", "PsiLogic", "Lion"), ("vit", "PsiLogic", "Lion"))
    assert mixture.confounded == ()


def test_an_arm_that_goes_with_the_machine_is_confounded(tmp_path, monkeypatch):
    monkeypatch.setattr("fairbench.report.draw_figures", lambda *_: [])
    the_study = study(("vit",))
    mixed, records = found(the_study, lambda s: {"device": "new"} if s.optimizer.name == "AdamW" else {"device": "old"})
    assert [(m.comparisons, m.confounded) for m in mixed] == [((VIT_ADAMW,), (VIT_ADAMW,))]
    report = write_report(history(the_study), records, tmp_path)
    (warning,) = failing(report)
    assert warning.startswith("MIXED MACHINES: Trials differ in device (new / old). Concerned: vit against AdamW.")
    assert "In vit against AdamW it depends on the optimizer" in warning
    lines = (tmp_path / "summary.csv").read_text().splitlines()
    column = lines[0].split(",").index("environment_device")
    assert {(line.split(",")[1], line.split(",")[column]) for line in lines[1:]} == {
        ("AdamW", "new"),
        ("Lion", "old"),
        ("PsiLogic", "old"),
    }


def test_of_many_values_a_few_are_listed(tmp_path, monkeypatch):
    monkeypatch.setattr("fairbench.report.draw_figures", lambda *_: [])
    the_study = study(("vit",), seeds=tuple(range(1, 8)))
    _, records = found(the_study, lambda s: {"git": f"{s.seed}"})
    report = write_report(history(the_study), records, tmp_path)
    assert "git (0 / 1 / 2 / 3 and 4 more)" in failing(report)[0]


def test_data_that_nobody_vouches_for_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr("fairbench.report.draw_figures", lambda *_: [])
    the_study = study()
    origin = {"gpt": "archive, not verified", "vit": "archive, verified"}
    _, records = found(the_study, lambda s: {"data": origin[s.arena.name]})
    report = write_report(history(the_study), records, tmp_path)
    assert failing(report) == ["UNVERIFIED DATA: in gpt their hash differs from the known one, or none is known."]
    assert "archive, not verified" in (tmp_path / "summary.csv").read_text()


def test_a_sweep_elsewhere_concerns_the_comparison_too():
    mixed, _ = found(study(("vit",)), lambda s: {"torch": "x" if s.stage == "sweep" else "y"})
    assert mixed[0].comparisons == (VIT_ADAMW, ("vit", "PsiLogic", "Lion"))
    assert mixed[0].confounded == ()


def test_different_facts_are_listed():
    there = [{"torch": "2.12", "device": "a"}]
    assert environment_differences(there, {"torch": "2.12", "device": "a"}) == ""
    warning = environment_differences(there, {"torch": "2.13", "device": "a"})
    assert "torch: 2.12; here 2.13" in warning
    assert "device" not in warning
