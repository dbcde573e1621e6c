"""Write the parts of README.md that come from the published results: the picture, and the verdicts against AdamW.

.venv/bin/python docs/readme.py
"""

import csv
import re
from pathlib import Path

from fairbench.report.figures.canvas import style
from fairbench.report.figures.colors import COLORS
from fairbench.report.figures.intervals import Interval, draw_intervals
from fairbench.report.figures.labels import LABEL_HEIGHT
from fairbench.report.figures.looks import KNOWN, Look, style_of
from fairbench.report.tables.numbers import interval, p_value

DOCS = Path(__file__).parent
README = DOCS.parent / "README.md"
SHOWN = ("PsiLogic", "Lion", "Muon", "SOAP", "SCION", "ScheduleFree", "ADOPT", "Adam")
"""The optimizers of the picture, out of those of the suite `zoo`."""
WIDTH = 8.65
"""Inches of the picture: 830 pixels."""


def rows_of(study: str) -> list[dict[str, str]]:
    """The comparisons of a published study."""
    with (DOCS / f"results/{study}/significance.csv").open() as file:
        return list(csv.DictReader(file))


def picture() -> str:
    """The gain of some optimizers over AdamW in the arenas of `zoo`, as SVG in light colors."""
    panels: dict[str, list[Interval]] = {}
    margins = {}
    for row in rows_of("zoo"):
        if row["baseline"] in SHOWN:
            name, sure = row["baseline"], row["verdict"] in ("better", "worse")
            look = Look(1, name, name, *style_of(KNOWN.index(name)))
            value, *ends = (-float(row[x]) for x in ("advantage", "ci_high", "ci_low"))
            low, high = (None, None) if row["verdict"].startswith("identical") else ends
            title = f"{row['arena']}, {row['metric']}"
            panels.setdefault(title, []).append(Interval(name, name, look, 0.0 + value, low, high, sure))
            margins[title] = float(row["margin"])
    ranked = {title: sorted(rows, key=lambda row: -row.value) for title, rows in panels.items()}
    about = "Gain over AdamW", "gain over AdamW (right is better)", "Filled: the verdict is better or worse."
    with style(WIDTH):
        drawn = draw_intervals(ranked, "readme", *about, row_height=LABEL_HEIGHT + 0.04, margins=margins)
    assert drawn is not None
    return drawn.svg


def dark(svg: str) -> str:
    """The same picture in dark colors."""
    by_light = dict(COLORS.values())
    return re.sub(r"#[0-9a-f]{6}", lambda color: by_light.get(color[0], color[0]), svg)


def verdicts() -> str:
    """The verdicts of `mini` against AdamW, as the command prints them."""
    lines = [f"{'arena':<8}{'baseline':<10}{'verdict':<14}{'advantage [95% CI]':<28}Holm p"]
    for row in rows_of("mini"):
        if row["baseline"] == "AdamW":
            ends = interval(*(float(row[x]) for x in ("advantage", "ci_low", "ci_high")))
            numbers = f"{ends:<28}{p_value(float(row['p_holm']))}"
            lines.append(f"{row['arena']:<8}{row['baseline']:<10}{row['verdict']:<14}{numbers}")
    return "\n".join(lines)


def with_verdicts(readme: str) -> str:
    """README with these verdicts between its markers."""
    begin, end = "<!-- verdicts -->\n```\n", "\n```\n<!-- end -->"
    return readme[: readme.index(begin) + len(begin)] + verdicts() + readme[readme.index(end) :]


if __name__ == "__main__":
    light = picture()
    for name, text in (("light", light), ("dark", dark(light))):
        (DOCS / f"results/zoo/figures/readme-{name}.svg").write_text(text)
    README.write_text(with_verdicts(README.read_text()))
