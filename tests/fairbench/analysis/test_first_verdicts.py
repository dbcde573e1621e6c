"""The first verdicts on an arena, while other arenas have no trials yet."""

from fabricated import Records, analysed, study

from fairbench.analysis.first_verdicts import first_verdicts

SEEDS = (1, 2, 3, 4)
SCORES = {"PsiLogic": [0.90, 0.92, 0.91, 0.90], "AdamW": [0.50, 0.51, 0.52, 0.50], "Lion": [0.4, 0.9, 0.5, 0.8]}


def test_decided_ones_are_those_of_the_whole_study():
    the_study = study(("gpt", "vit"), ("AdamW", "Lion", "PsiLogic"), seeds=SEEDS)
    records = Records(the_study, **SCORES)

    def of_vit(spec):
        return records(spec) if spec.arena.name == "vit" else None

    told = first_verdicts(the_study, of_vit, "vit")
    assert told.startswith("vit has ended, first verdicts: ")
    decided = 0
    for comparison in analysed(the_study, records).comparisons:
        if comparison.arena == "vit" and comparison.verdict in ("better", "worse", "equivalent"):
            assert f"{comparison.optimizer} against {comparison.baseline}: {comparison.verdict}" in told
            decided += 1
    assert decided
