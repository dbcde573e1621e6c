"""Verdicts on anyone's table of results, by the tests and corrections that a study gets."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fairbench.analysis.comparison.verdicts import Comparison, Verdict, judge, of_values, summarized
from fairbench.analysis.published.table_columns import SETTING, Entry, direction_of, entries_of, plain_name
from fairbench.analysis.published.table_numbers import decimal_sign, is_lost, pair_of, seed_of, value_of
from fairbench.analysis.published.table_reading import read_table
from fairbench.analysis.statistics.significance import Summary, summarize
from fairbench.common.errors import UsageError, unknown
from fairbench.common.formatting import plural, some
from fairbench.common.grouping import grouped

BETTER = {"min": ("lower", "min", "minimize", "false"), "max": ("higher", "max", "maximize", "true")}
"""The words for each direction in a column `better`, `direction` or `higher_is_better`."""
NUMBERS = ("value", "std", "sem", "n", "step", "margin")
Values = dict[str, float | None]
"""The values of an optimizer in an arena by seed, or by place without seeds.

NaN stands for a run that diverged, None for another one without a value.
"""


@dataclass(frozen=True)
class Question:
    """What is asked of a table, as `fairbench.verdicts` explains it; the keys of `columns` are `ROLES`."""

    optimizer: str = ""
    better: str = ""
    baselines: Sequence[str] = ()
    alpha: float = 0.05
    columns: Mapping[str, str] = field(default_factory=dict)
    metric: str = ""
    at: str = ""
    margin: float | None = None
    against: float | None = None


def table_comparisons(source: Any, asked: Question) -> tuple[list[Comparison], list[str]]:
    """Judge the results of a table: an optimizer against every other one, or means against a number, in every arena.

    Two optimizers are compared by the paired test of the seeds that both have, if these are at least two, otherwise by
    Welch's test of all. Means are compared by Welch's test, and with a number by the t-test of one sample. The
    comparisons have the order of the table, and are returned with what was skipped, merged or assumed.

    Raises:
        UsageError: the table cannot be read, may mean two things, or has a wrong or repeated value.
    """
    sheet = read_table(source)
    entries, metric, notes = entries_of(sheet, asked.columns, asked.metric, alone=asked.against is not None)
    names = list(dict.fromkeys(x.optimizer for x in entries))
    for name in (*filter(None, [asked.optimizer]), *asked.baselines):
        if name not in names:
            raise unknown(f"optimizer of {sheet.name}", name, names)
    if alike := [x for x in names if x.casefold() in {y.casefold() for y in names if y != x}]:
        raise UsageError(f"{sheet.name}: are {' and '.join(alike)} the same? Give one name, or two that differ more")
    sign = decimal_sign((x.texts[role], x.row.place) for x in entries for role in NUMBERS if role in x.texts)
    if not asked.better and "better" not in entries[0].texts and (word := direction_of(metric)):
        notes.append(f"{word} {metric} is better, by its name")
    arenas = grouped((entry.arena, entry) for entry in entries)
    empty = [x for x, here in arenas.items() if not any(x.texts["value"] or "state" in x.texts for x in here)]
    if 0 < len(empty) < len(arenas):
        notes.append(f"{plural(len(empty), 'arena')} without a value of {metric} skipped: {some(empty)}")
        arenas = {x: here for x, here in arenas.items() if x not in empty}
    found: list[Comparison] = []
    for arena, here in arenas.items():
        direction, margin = _direction(here, asked, metric), _margin(here, asked, sign)
        arms = _arms(_at(here, asked.at, direction, sign, notes), sign, notes)
        begun = Comparison(arena, metric, direction, asked.optimizer or names[0], "", margin=margin)
        if asked.against is not None:
            ours = [x for x in arms if asked.optimizer in ("", x)]
            found += [_against(replace(begun, optimizer=x), arms[x], asked.against) for x in ours]
        elif begun.optimizer in arms:
            others = [x for x in arms if x != begun.optimizer and x in (asked.baselines or names)]
            found += [_compare(replace(begun, baseline=x), arms[begun.optimizer], arms[x]) for x in others]
    if not found:
        ways = "add rows, or --optimizer, or compare it with a number by --against"
        raise UsageError(f"{sheet.name}: {asked.optimizer or names[0]} shares no arena with another optimizer; {ways}")
    return judge(found, asked.alpha), list(dict.fromkeys(notes))


def _common(entries: Sequence[Entry], role: str) -> tuple[str, str]:
    """The text of a role in all rows of an arena, empty without one, and where it is."""
    (text, places), *others = grouped((x.texts.get(role, "").casefold(), x.row.place) for x in entries).items()
    if others:
        raise UsageError(f"{others[0][1][0]}: {role} must be the same in all rows of arena {entries[0].arena}")
    return text, places[0]


def _direction(entries: Sequence[Entry], asked: Question, metric: str) -> str:
    """Which direction of the values is better in an arena, "min" or "max"."""
    text, place = (asked.better, "--better") if asked.better else _common(entries, "better")
    if not (text := text or direction_of(metric)):
        raise UsageError(f"{place}: which values are better? Give --better lower or higher, or a column better")
    if found := [direction for direction, words in BETTER.items() if text in words]:
        return found[0]
    raise UsageError(f"{place}: better must be lower or higher, got {text!r}")


def _margin(entries: Sequence[Entry], asked: Question, sign: str) -> float | None:
    text, place = _common(entries, "margin") if asked.margin is None else ("", "--margin")
    margin = value_of(text, sign) if text else asked.margin
    if margin is not None and not 0 < margin < math.inf:
        raise UsageError(f"{place}: the margin must be a positive number, got {text or margin}")
    return margin


def _at(entries: list[Entry], at: str, direction: str, sign: str, notes: list[str]) -> list[Entry]:
    """One entry of each run, where the entries are those of curves: at a step, or at the last or the best one."""
    steps = [value_of(x.texts.get("step", ""), sign) for x in entries]
    if at and None in steps:
        raise UsageError(f"{entries[steps.index(None)].row.place}: --at {at} needs a step; give --columns step=NAME")
    runs: dict[tuple[str, str | None], dict[float, Entry]] = {}
    for x, step in zip(entries, steps, strict=True) if at or len({*steps}) > 1 else ():
        run = runs.setdefault((x.optimizer, x.seed), {})
        if step in run:
            raise _repeated(run[step], x, f"step {step:g} of {x.optimizer}")
        if step is not None and x.texts["value"]:  # trackers log other metrics at other steps
            run[step] = x
    if not at and any(len(run) > 1 for run in runs.values()):
        raise UsageError(f"{entries[0].row.place}: begins a curve over steps; give --at last, --at best, or --at STEP")
    if not at:
        return entries
    ends = sorted({max(run, default=0.0) for run in runs.values()})
    if at == "last" and len(ends) > 1:
        notes.append(f"the last steps of the runs differ, from {ends[0]:g} to {ends[-1]:g}")
    nothing = {(x.optimizer, x.seed): replace(x, texts={**x.texts, "value": ""}) for x in entries}
    found = [_point(run, at, direction, sign) or nothing[key] for key, run in runs.items()]
    if not any(x.texts["value"] for x in found):
        raise UsageError(
            f"{entries[0].row.place}: no run has a value at step {at}; --at takes last, best or one of the steps"
        )
    return found


def _point(run: Mapping[float, Entry], at: str, direction: str, sign: str) -> Entry | None:
    """The entry of a curve at a step; None without it."""
    if at == "best":
        values = {step: value_of(x.texts["value"], sign) for step, x in run.items()}
        finite = {x: step for step, x in values.items() if x is not None and math.isfinite(x)}
        at = str(finite[(min if direction == "min" else max)(finite)]) if finite else "last"
    try:
        return run.get(max(run, default=0.0) if at == "last" else float(at))
    except ValueError:
        raise UsageError(f"--at must be last, best or a step, got {at!r}") from None


def _arms(entries: Sequence[Entry], sign: str, notes: list[str]) -> dict[str, Values | Summary]:
    """The arms of an arena by their optimizers."""
    arms: dict[str, Values | Summary] = {}
    seen: dict[tuple[str, str], Entry] = {}
    units: dict[bool, str] = {}
    for x in entries:
        text, state = x.texts["value"], x.texts.get("state", "finished")
        is_mean = {"mean", "std", "sem"} & x.texts.keys() or (x.seed is None and "n" in x.texts) or pair_of(text)
        for part in (text, x.texts.get("std", "") if is_mean else ""):
            units |= {} if is_lost(part) else {"%" in part: x.row.place}
        seed = "" if is_mean else f"{x.optimizer}, {x.row.place}" if x.seed is None else seed_of(x.seed)
        key = x.optimizer, "" if isinstance(arms.get(x.optimizer), Summary) else seed
        if key in seen:
            raise _repeated(seen[key], x, f"seed {seed} of {x.optimizer}" if seed else x.optimizer)
        seen[key] = x
        text = state if is_lost(state) and not is_lost(text) else text
        if is_mean and not is_lost(text):
            arms[x.optimizer] = _summary(x, text, sign, notes)
        else:
            values = arms.setdefault(x.optimizer, {})
            assert isinstance(values, dict)  # a summary has the key of any seed
            values[seed] = value_of(text, sign)
    if len(units) > 1:
        raise UsageError(f"{units[False]}: has no percent sign, but {units[True]} has one; write all alike")
    return arms


def _repeated(before: Entry, x: Entry, what: str) -> UsageError:
    """The error for a second value, with the columns in which its row differs from that of the first."""
    known = {*x.texts.values(), *before.texts.values()}
    cells, earlier = x.row.cells, before.row.cells
    others = [c for c in cells if cells[c] != earlier[c] and not {cells[c], earlier[c]} <= known]
    others = [c for c in others if not (direction_of(c) or SETTING.fullmatch(plain_name(c)))] or others
    ways = f", or give --columns arena, seed or optimizer with what differs: {some(others)}" if others else ""
    return UsageError(f"{x.row.place}: {what} has a value already; keep one{ways}")


def _summary(x: Entry, text: str, sign: str, notes: list[str]) -> Summary:
    """The summary of an arm, of a row with n, mean and std."""
    if "n" not in x.texts:
        raise UsageError(f"{x.row.place}: a mean of how many seeds? Give --columns n=NAME, or their number, as n=5")
    if pair := pair_of(text):
        notes.append("the second number of a cell was taken as the standard deviation")
    mean, std = (value_of(part, sign) for part in pair or (text, x.texts.get("std", "")))
    n, error = (value_of(x.texts.get(role, ""), sign) for role in ("n", "sem"))
    n = 1.0 if n is None and std is None else n
    if n is None or n != n // 1:
        raise UsageError(f"{x.row.place}: n must be a whole number, got {x.texts['n']!r}")
    if std is None and n >= 1:
        std = error * math.sqrt(n) if error is not None else 0.0 if n == 1 else None
    if mean is None or std is None or n < 1 or not (std >= 0 and math.isfinite(mean)):
        need = "n must be at least 1, mean finite, and std finite and not negative"
        raise UsageError(f"{x.row.place}: {need}; got n {n:g}, mean {mean}, std {std}")
    return Summary(int(n), mean, std)


def _compare(begun: Comparison, ours: Values | Summary, theirs: Values | Summary) -> Comparison:
    """A comparison of two arms before Holm's correction."""
    begun = _counted(begun, ours, theirs)
    if begun.note:
        return begun
    if isinstance(ours, dict) and isinstance(theirs, dict):
        shared, sizes = [seed for seed in ours if seed in theirs], (len(ours), len(theirs))
        if len(shared) > 1 or ours.keys() == theirs.keys():
            used = f"{len(shared)} seeds in common, of {sizes[0]} and {sizes[1]}"
            note = "" if ours.keys() == theirs.keys() else used
            a, b = ([arm[seed] or 0.0 for seed in shared] for arm in (ours, theirs))
            return of_values(replace(begun, note=note, seeds=len(shared)), a, b)
        begun = replace(begun, note=f"Welch's test, {len(shared) or 'no'} seed in common" if min(sizes) > 1 else "")
    return summarized(begun, _whole(ours), _whole(theirs))


def _against(begun: Comparison, ours: Values | Summary, number: float) -> Comparison:
    """A comparison of a mean with a number: Welch's test with a mean that has no variance."""
    begun = _counted(replace(begun, baseline=f"{number:g}", test="one-sample"), ours, {})
    if begun.note:
        return begun
    arm = _whole(ours)
    found = summarized(begun, arm, Summary(arm.n, number, 0.0))
    return replace(found, test=begun.test, hedges_g=None, std_baseline=None)


def _whole(arm: Values | Summary) -> Summary:
    """The summary of an arm without lost runs."""
    return arm if isinstance(arm, Summary) else summarize([x or 0.0 for x in arm.values()])


def _counted(begun: Comparison, *arms: Values | Summary) -> Comparison:
    """A comparison with the numbers of runs, and its verdict where some are lost."""
    n, diverged, notes = [], [], []
    for name, arm in zip((begun.optimizer, begun.baseline), arms, strict=True):
        values = [0.0] * arm.n if isinstance(arm, Summary) else [*arm.values()]
        diverged.append(sum(x is not None and math.isnan(x) for x in values))
        failed = sum(x is None for x in values)
        n.append(len(values) - diverged[-1] - failed)
        counts = ((diverged[-1], "diverged"), (failed, "without a value"))
        notes += [f"{name} {word} {count}/{len(values)}" for count, word in counts if count]
    verdict: Verdict = "diverged" if any(diverged) else "incomplete" if notes else "inconclusive"
    counted = replace(begun, verdict=verdict, note=", ".join(notes), seeds=max(n), n_optimizer=n[0], n_baseline=n[1])
    return replace(counted, diverged_optimizer=diverged[0], diverged_baseline=diverged[1])
