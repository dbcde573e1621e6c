"""The comparison of a study with a publication in sentences."""

from collections.abc import Sequence
from typing import Any

from fairbench.analysis.published.publication import Publication
from fairbench.analysis.published.replication import Gap, ValueRow, VerdictRow, gaps
from fairbench.analysis.results import Results
from fairbench.common.checks import Flag
from fairbench.common.formatting import some
from fairbench.report.findings import Finding
from fairbench.study.history import changes
from fairbench.suites.loader import load_suite
from fairbench.suites.schema import Suite

BASIS = (
    "The published values are of a validation split, ours of the test split, {selection}. Our perplexity is exp(loss) "
    "of each seed, then mean and standard deviation; it restates the loss and is no second result. Times of different "
    "machines are compared only by ratios: of published wall times, and of our training steps."
)


def find_replication(
    publication: Publication,
    results: Results,
    values: Sequence[ValueRow],
    verdicts: Sequence[VerdictRow],
) -> list[Finding]:
    """The statements that flags and tables do not make, the most important first."""
    selected = results.study.suite.selection == "test"
    selection = "on which the suite selects its settings" if selected else "which no selection has read"
    texts = {
        "What is compared": BASIS.format(selection=selection),
        "Values": _values(values),
        "Verdicts": _verdicts(verdicts),
        "Not compared": _not_compared(gaps(publication, results), verdicts, results),
        "Divergence": _divergence(results),
    }
    return [Finding(topic, text) for topic, text in texts.items() if text]


def other_settings(publication: Publication, results: Results) -> list[Flag]:
    """The flag of a study whose settings are not those of the suite with the publication's name; none otherwise."""
    ours, theirs = results.study.suite, load_suite(publication.name)
    differing = [str(change) for change in changes(_settings(theirs, ours), _settings(ours, theirs))]
    if not differing:
        return []
    evidence = (
        f"suite {ours.name!r} differs from the published settings, the suite {publication.name!r}: "
        f"{some(differing, '; ')}. No difference here refutes a published value, no agreement replicates one."
    )
    return [Flag("other settings", "fail", evidence, f"Run the suite {publication.name!r}.")]


def _settings(suite: Suite, other: Suite) -> dict[str, Any]:
    """What determines the numbers of a suite, for the arenas and optimizers that the other suite has too."""
    content = suite.to_json()
    settings = {key: content[key] for key in ("sweep", "final", "training", "breaks")}
    for key in ("arenas", "optimizers"):
        settings[key] = {name: table for name, table in content[key].items() if name in getattr(other, key)}
    return settings


def _values(values: Sequence[ValueRow]) -> str:
    """The number of our means inside the published spread, and of our rates that are the published ones.

    With three seeds a third of exact repetitions lies outside: the difference of two means, over the first one's
    s sqrt(2/3), has Student's t with 2 degrees of freedom.
    """
    spread = [row for row in values if row.published_std is not None]
    judged = [row for row in spread if row.inside is not None]
    inside = sum(row.inside is True for row in judged)
    rates = [row.same_lr for row in {(row.arena, row.optimizer): row for row in values}.values()]
    return (
        f"Of {len(spread)} published means with a spread, {len(judged)} can be compared with ours; ours lies inside "
        f"mean ± std for {inside} of these. With three seeds a third of exact repetitions lies outside by chance. "
        f"The selected learning rate is the published one for {rates.count(True)} of {len(rates) - rates.count(None)} "
        "arms."
    )


def _verdicts(verdicts: Sequence[VerdictRow]) -> str:
    judged = [row for row in verdicts if row.agree is not None]
    differing = [
        f"{row.arena} {row.metric} against {row.baseline} "
        f"(published {in_words(row.published_direction, row.published_significant)}; "
        f"ours {in_words(row.our_direction, row.our_significant)})"
        for row in judged
        if not row.agree
    ]
    return (
        f"Of {len(verdicts)} published comparisons, {len(judged)} can be made here; {len(judged) - len(differing)} of "
        "these agree: both significant at 0.05 in the same direction, or neither, without any correction. Two that "
        "are not significant agree without showing that there is no difference."
        + (f" Differing: {', '.join(differing)}." if differing else "")
    )


def in_words(direction: str | None, significant: bool | None) -> str:
    """A judgement in words; a dash where there is none."""
    return "–" if direction is None else direction if significant else f"{direction}, n.s."


def _not_compared(gaps: Sequence[Gap], verdicts: Sequence[VerdictRow], results: Results) -> str:
    """The names that only one side has, and the comparisons that the study cannot test yet."""
    parts = [f"{gap.kind} missing in the study: {', '.join(gap.only_published)}" for gap in gaps if gap.only_published]
    parts += [f"{gap.kind} that were not published: {', '.join(gap.only_ours)}" for gap in gaps if gap.only_ours]
    arms = {(arm.arena, arm.optimizer) for arm in results.arms}
    untested: dict[str, list[str]] = {}
    for row in verdicts:
        if row.agree is None and {(row.arena, row.optimizer), (row.arena, row.baseline)} <= arms:
            untested.setdefault(row.note, []).append(f"{row.arena} {row.metric} against {row.baseline}")
    parts += [f"not tested, since {note}: {', '.join(where)}" for note, where in untested.items()]
    return f"{'; '.join(parts)}." if parts else ""


def _divergence(results: Results) -> str:
    lost = [arm for arm in results.arms if arm.diverged or arm.count("diverged")]
    if not lost:
        return ""
    names = ", ".join(f"{arm.arena} {arm.optimizer}" for arm in lost)
    return f"Trials diverged in {names}; our means there are of the seeds that finished, if any, and may be too good."
