"""Generated tables with known runs get the right verdicts, or a refusal; never a wrong verdict."""

import io
from itertools import combinations

import pytest
from generated_tables import Generated, generated
from scipy import stats

import fairbench as fb
from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.common.errors import UsageError


def outcome(table: Generated) -> str:
    """The word "right", or "refused" or "wrong" with the reason."""
    try:
        judged = fb.verdicts(io.StringIO(table.text), **table.options)
    except UsageError as error:
        return f"refused: {error}"
    if table.results is None:
        return f"wrong: should be refused, but it was {judged.read_as}"
    arenas = {arena.casefold(): arena for arena in table.results}
    expected_pairs = 0
    for arms in table.results.values():
        own = [name for name in arms if name in ("Ours", "MyRule")]
        expected_pairs += len(arms) - 1 if len(own) == 1 else len([*combinations(arms, 2)])
    if len({(c.arena, c.optimizer, c.baseline) for c in judged}) != expected_pairs:
        return f"wrong: {len(judged)} comparisons, not {expected_pairs}; {judged.read_as}"
    for c in judged:
        # without a column of arenas, the metric is the arena
        arena = next(iter(table.results)) if len(arenas) == 1 else arenas.get(c.arena.casefold(), "")
        reason = wrong(c, table, arena)
        if reason:
            return f"wrong: {reason}; {judged.read_as}"
    return "right"


def wrong(c: Comparison, table: Generated, arena: str) -> str:
    """What is wrong with a comparison; empty if it is right."""
    arms = table.results.get(arena, {})
    if c.optimizer not in arms or c.baseline not in arms:
        return f"{c.arena}, {c.optimizer}, {c.baseline} are not in the table"
    if table.lost & {(arena, c.optimizer), (arena, c.baseline)}:
        return "" if c.verdict == "incomplete" else f"{c.verdict} with a lost run"
    ours = arms[c.optimizer]
    theirs = arms[c.baseline]
    if c.verdict == "incomplete":
        return "" if ours.keys() != theirs.keys() else "incomplete with the same seeds"
    if c.test == "paired":
        expected = stats.ttest_rel([*ours.values()], [theirs[seed] for seed in ours])
    else:
        expected = stats.ttest_ind([*ours.values()], [*theirs.values()], equal_var=False)
    tolerance = 0.001 if table.are_means else 1e-9
    is_close = c.p == pytest.approx(expected.pvalue, rel=tolerance, abs=0.01 * tolerance)
    if (c.n_optimizer, c.n_baseline) != (len(ours), len(theirs)) or not is_close:
        return f"n {c.n_optimizer} and {c.n_baseline}, p {c.p} for {expected.pvalue}"
    return ""


def assert_right(numbers):
    tables = {number: generated(number) for number in numbers}
    outcomes = {number: outcome(table) for number, table in tables.items()}
    wrong = {number: text for number, text in outcomes.items() if text.startswith("wrong")}
    assert not wrong
    readable = [number for number, table in tables.items() if table.results is not None]
    refused = {number: outcomes[number] for number in readable if outcomes[number].startswith("refused")}
    assert len(refused) <= 0.1 * len(readable), refused


def test_150_tables():
    assert_right(range(150))


@pytest.mark.soak
def test_2000_tables():
    assert_right(range(2000))
