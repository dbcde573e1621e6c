"""The documents say what the files say."""

import csv
import importlib
import re
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from fairbench.analysis.comparison.verdicts import VERDICTS, Comparison
from fairbench.arenas.registry import known_arenas
from fairbench.cli.main import main
from fairbench.optimizers.resolve import known_optimizers
from fairbench.suites.loader import tomllib

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# What no text of the field says: metaphors, literal idioms, and words that a reader must translate.
ODD = ("anew", "whoever", "mend(?:s|ed|ing)?", "beside", "so many", "moods?", "tells of", "of one's own", "somebody",
       "of our own", "wanting", "heard", "hereby", "thereby", "in vain", "midst", "hasty", "given back", "all the same",
       "comes? to (?:no|an|its) end", "go(?:es)? on", "anyone's own", "lacking", "is told")  # fmt: skip
TEXTS = ("py", "md", "toml", "j2", "js", "txt", "cpp", "h")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert not [link for link in links if not (page.parent / link).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_tests_that_prove_it_exist(page: Path) -> None:
    for name, link in re.findall(r"\[(test_\w+)\]\(([^)]+)\)", page.read_text()):
        assert f"def {name}(" in (page.parent / link).read_text(), name


def test_entry_points_on_the_pages_are_those_that_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: read.append(group) or [])
    known_arenas()
    known_optimizers.__wrapped__()
    assert {name for page in PAGES for name in re.findall(r'entry-points\."(.*?)"', page.read_text())} == set(read)


def test_the_readme_is_short_and_has_the_published_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    readme, text = importlib.import_module("readme"), (ROOT / "README.md").read_text()
    assert len(text.encode()) <= 6 * 1024
    assert readme.with_verdicts(text) == text, "run docs/readme.py"
    light = readme.picture()
    for name, picture in (("light", light), ("dark", readme.dark(light))):
        assert (ROOT / f"docs/results/zoo/figures/readme-{name}.svg").read_text() == picture, "run docs/readme.py"


def test_the_verdict_table_of_the_reference_run_is_its_csv() -> None:
    """Every number of the table is the one in significance.csv, rounded to the digits that the table shows."""
    with (ROOT / "docs/results/mini/significance.csv").open() as file:
        rows = list(csv.DictReader(file))
    page = (ROOT / "docs/results/mini/README.md").read_text()
    _, *lines = re.findall(r"^\| (\w+) \((\w+)\) \| (.*) \|$", page, flags=re.MULTILINE)
    columns = ("mean_reference", "mean_baseline", "advantage", "ci_low", "ci_high", "p", "p_holm")
    for (arena, metric, rest), row in zip(lines, rows, strict=True):
        baseline, verdict, numbers = rest.split(" | ", 2)
        assert (arena, metric, baseline) == (row["arena"], row["metric"], row["baseline"])
        assert verdict == ("**better**" if row["verdict"] == "better" else row["verdict"])
        shown = re.findall(r"[-+]?\d+(?:\.\d+)?", numbers)
        for text, column in zip(shown, columns, strict=True):
            digits = len(text.partition(".")[2])
            assert abs(float(text) - float(row[column])) <= 0.5001 * 10**-digits, (arena, baseline, column)


def test_the_fault_of_every_mutant_can_be_made() -> None:
    """Its text is in its file once; whether tests notice it, `tests/mutants.py` shows."""
    for mutant in tomllib.loads((ROOT / "tests/mutants.toml").read_text())["mutant"]:
        assert (ROOT / "src/psilogic" / mutant["file"]).read_text().count(mutant["old"]) == 1, mutant["name"]


def test_no_benchmark_replaces_a_module_of_python() -> None:
    """A script's folder comes first where it imports."""
    assert not {path.stem for path in (ROOT / "benchmarks").glob("*.py")} & sys.stdlib_module_names


def test_the_step_time_table_is_the_benchmarks() -> None:
    """Every ratio is the one in step_time.csv, and so are the sets and targets."""
    with (ROOT / "docs/results/benchmarks/step_time.csv").open() as file:
        rows = {(row["contender"], row["set"]): row for row in csv.DictReader(file)}
    table = (
        (ROOT / "docs/performance.md").read_text().partition("| one step, as a multiple of ")[2].partition("\n\n")[0]
    )
    head, _, *lines = table.splitlines()
    sets = [name.strip() for name in head.split("|")[1:-2]]
    assert set(sets) == {name for _, name in rows}
    for line in lines:
        contender, *ratios, targets = (cell.strip() for cell in line.split("|")[1:-1])
        target, _, exceptions = targets.partition(", ")
        of_set = dict(exception.rsplit(" ", 1) for exception in exceptions.split(", ") if exception)
        for name, ratio in zip(sets, ratios, strict=True):
            assert abs(float(ratio) - float(rows[contender, name]["ratio"])) <= 0.00501, (contender, name)
            assert of_set.get(name, target) == rows[contender, name]["target"], (contender, name)


PAGE = ROOT / "docs/verdicts.md"


def test_the_sizes_of_an_installation_are_the_benchmarks() -> None:
    table = re.findall(
        r"^\| `?(\w*)`? \| (.+) \| .* \| (\d*) \| (\d+) \|$", (ROOT / "docs/install.md").read_text(), re.MULTILINE
    )
    with (ROOT / "docs/results/benchmarks/install_size.csv").open() as file:
        assert [tuple(row.values()) for row in csv.DictReader(file)] == table


def test_the_errors_of_a_search_are_those_of_the_benchmark_and_repeated_searches_hold_alpha() -> None:
    with (ROOT / "docs/results/benchmarks/search_error.csv").open() as file:
        rows = list(csv.DictReader(file))
    shown = re.findall(r"^\| (\w+) \| (\d+) \| (0\.\d+) \| (0\.\d+) \|$", PAGE.read_text(), flags=re.MULTILINE)
    rounded = [f"{float(row[name]):.3f}" for row in rows for name in ("one_search", "repeated")]
    assert shown == [(row["curves"], row["seeds"], *rounded[2 * i : 2 * i + 2]) for i, row in enumerate(rows)]
    assert all(float(x["repeated"]) <= 0.05 + 3 * (0.05 * 0.95 / int(x["studies"])) ** 0.5 for x in rows)


def test_the_errors_of_looks_are_those_of_the_benchmark_and_hold_alpha() -> None:
    with (ROOT / "docs/results/statistics.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["design"] != "undeclared looks"]
    page = (ROOT / "docs/seeds-on-demand.md").read_text()
    shown = re.findall(r"^\| (\S+) \| (`?[\w -]+`?) \| (0.*) \|$", page, flags=re.MULTILINE)
    assert len(shown) == len({(row["scores"], row["spending"], row["design"]) for row in rows})
    for scores, design, numbers in shown:
        mine = [x for x in rows if x["scores"] == scores and (x["spending"] or "20 seeds") == design.strip("`")]
        (none,) = (x for x in mine if x["differing"] == "none")
        cases = {x["difference"]: x for x in mine if (x["differing"], x["margin"]) == ("all", "0.1")}
        smaller, larger = cases["1.2"], cases["2.0"]
        equivalence = max(float(x["false_equivalence_any_stopping"] or 0) for x in mine)
        values = [none["false_verdict_any_stopping"], equivalence, smaller["power"], larger["power"]]
        counts = [larger["median_seeds"], larger["trials"]]
        written = [f"{float(x):.3f}" for x in values] + [f"{float(x):.0f}" for x in counts]
        assert numbers.split(" | ") == written, (scores, design)
    bar = 0.05 + 3 * (0.05 * 0.95 / 10_000) ** 0.5
    errors = [row[f"false_{of}_any_stopping"] for row in rows for of in ("verdict", "equivalence")]
    assert max(float(x) for x in errors if x) <= bar


def test_the_intervals_of_ladders_cover_and_their_verdicts_are_as_often_right_as_forecast() -> None:
    with (ROOT / "docs/results/benchmarks/ladder_coverage.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {int(row["studies"]) for row in rows} == {2000}
    error = 3 / 2000**0.5
    for row in rows:
        assert all(0.93 <= float(row[f"covers_{name}"]) <= 0.97 for name in ("speed_up", "trend")), row
        assert float(row["false_verdict"]) <= 0.05 + error * (0.05 * 0.95) ** 0.5, row
        right = {"detectable": "grows", "-detectable": "shrinks"}.get(row["trend"])
        assert right is None or float(row[right]) >= 0.9 - error * (0.9 * 0.1) ** 0.5, row
    page = (ROOT / "docs/speedup.md").read_text()
    for name in ("covers_speed_up", "covers_trend", "bootstrap_covers_speed_up", "bootstrap_covers_trend"):
        values = [float(row[name]) for row in rows if row[name]]
        assert re.search(rf"{min(values):.3f}\s(?:to|and)\s+{max(values):.3f}", page), name
    found = [
        float(row[{"detectable": "grows", "-detectable": "shrinks"}[x]])
        for row in rows
        if "detectable" in (x := row["trend"])
    ]
    none = [float(row["grows"]) + float(row["shrinks"]) for row in rows if row["trend"] == "none"]
    assert f"in {min(found):.3f} to {max(found):.3f} of the studies" in page
    assert f"one is found in at most {max(none):.3f}" in page


def test_the_comparison_of_searches_follows_from_the_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    """16 arms of 45 settings; a coordinate search has at most 40% of these, and reaches the best in at least 15."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    searches = importlib.import_module("coordinate_search")
    rows = searches.read_csv(searches.SEARCH)
    assert searches.table(searches.read_csv(searches.GRID)) == rows
    assert [int(row["grid_trials"]) for row in rows] == [45] * 16
    assert max(int(row["coordinate_trials"]) for row in rows) <= 18
    within = {name: [row[f"{name}_within"] for row in rows].count("TRUE") for name in ("coordinate", "rate_alone")}
    sobol = sum(float(row["sobol_within"]) for row in rows)
    said = re.findall(
        r"(\d+) of 16 arms, .* alone in (\d+),\s.* in (\d+\.\d)", (ROOT / "docs/suite-files.md").read_text()
    )
    assert within["coordinate"] >= 15
    assert said == [(str(within["coordinate"]), str(within["rate_alone"]), f"{sobol:.1f}")]


def test_every_verdict_and_every_column_of_significance_is_explained() -> None:
    table = PAGE.read_text().partition("## significance.csv")
    assert re.findall(r"^\| ([a-z ]+) \|", table[0], flags=re.MULTILINE)[1:] == list(VERDICTS)
    described = table[2].partition("\n\n## ")[0]
    names = [name for row in re.findall(r"^\| (`.*?) \|", described, flags=re.MULTILINE) for name in row.split(", ")]
    assert names == [f"`{field.name}`" for field in fields(Comparison)]


@pytest.mark.parametrize("words", [["paper", "--baselines", "AdamW"], ["paper"]])
def test_the_papers_verdicts_are_those_of_the_command(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["verdicts", *words]) == 0
    shown = [f"    {line.rstrip()}" for line in capsys.readouterr().out.splitlines()]
    assert "\n".join([f"    $ fairbench verdicts {' '.join(words)}", *shown]) + "\n\n" in PAGE.read_text()


def test_texts_use_the_words_of_the_field() -> None:
    odd = re.compile(rf"\b(?:{'|'.join(ODD)})\b", re.IGNORECASE)
    folders = [ROOT / name for name in ("src", "tests", "benchmarks", "examples", "docs")]
    files = [path for folder in folders for path in folder.rglob("*.*") if path.suffix[1:] in TEXTS]
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in [ROOT / "README.md", ROOT / "CHANGELOG.md", *files]
        if path != Path(__file__) and "egg-info" not in str(path)
        for line in path.read_text().splitlines()
        if odd.search(line)
    ]
    assert not found


def test_what_the_pages_say_of_the_ladder_is_in_its_tables() -> None:
    with (ROOT / "docs/results/ladder/speedup.csv").open() as file:
        muon = [row for row in csv.DictReader(file) if row["optimizer"] == "Muon"]
    page, readme = ((ROOT / name).read_text() for name in ("docs/what-we-found.md", "README.md"))
    faster = sum(row["claimed"] == "TRUE" for row in muon)
    assert f"faster in {faster} of its {len(muon)} cells" in page
    assert f"{faster} of {len(muon)} cells" in readme
    assert f"better in {sum(row['verdict'] == 'better' for row in muon)} of {len(muon)} cells" in page
    for row in muon:
        if row["speedup"]:
            low, high = (f"{float(row[x]):.2f}" if row[x] else "more than 4" for x in ("ci_low", "ci_high"))
            assert f"{float(row['speedup']):.2f} [{low}, {high}]" in page
