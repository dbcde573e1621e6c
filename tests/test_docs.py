"""The documents say what the files say."""

import csv
import importlib
import re
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import pytest

from fairbench.analysis.comparison.verdicts import VERDICTS, Comparison
from fairbench.analysis.statistics.trend import detectable_trend
from fairbench.arenas.registry import known_arenas
from fairbench.optimizers.registry import known_optimizers
from fairbench.suites.loader import load_suite, suite_names

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# What no text of the field says: metaphors, literal idioms, and words that a reader must translate.
ODD = (
    r"\b(?:"
    r"anew|whoever|mend(?:s|ed|ing)?|beside|so many|moods?|tells of|of one's own|somebody"
    r"|of our own|wanting|heard|hereby|thereby|in vain|midst|hasty|given back|all the same"
    r"|comes? to (?:no|an|its) end|go(?:es)? on|anyone's own|lacking|is told"
    r")\b"
)
TEXTS = (".py", ".md", ".toml", ".j2", ".js", ".txt", ".cpp", ".h")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\((?!https?:)([^)#\s]+)", page.read_text()):
        assert (page.parent / link).exists(), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_tests_that_prove_it_exist(page):
    for name, link in re.findall(r"\[(test_\w+)\]\(([^)]+)\)", page.read_text()):
        assert f"def {name}(" in (page.parent / link).read_text(), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_files_that_it_names_exist(page):
    for name in re.findall(r"(?<![\w./])((?:src|tests|docs|benchmarks|examples)/[\w./-]*\w)", page.read_text()):
        assert (ROOT / name).exists(), name


def test_entry_points_on_the_pages_are_those_that_are_read(monkeypatch):
    groups = set()

    def select(group):
        groups.add(group)
        return []

    for module in ("arenas.registry", "optimizers.registry"):
        monkeypatch.setattr(f"fairbench.{module}.entry_points", lambda: SimpleNamespace(select=select))
    known_arenas()
    known_optimizers.__wrapped__()
    on_the_pages = set()
    for page in PAGES:
        on_the_pages.update(re.findall(r'entry-points\."(.*?)"', page.read_text()))
    assert on_the_pages == groups


@pytest.mark.parametrize(("page", "most"), [("README.md", 6), ("docs/verdicts.md", 12)])
def test_first_pages_are_short(page, most):
    assert len((ROOT / page).read_bytes()) <= most * 1024


def test_the_readme_has_the_published_picture(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    readme = importlib.import_module("readme")
    light = readme.picture()
    figures = ROOT / "docs/static"
    assert (figures / "gains-light.svg").read_text() == light, "run docs/readme.py"
    assert (figures / "gains-dark.svg").read_text() == readme.dark(light), "run docs/readme.py"


def test_a_release_fills_the_address_of_the_repository_in(tmp_path):
    placeholder = re.compile(r"example\.invalid|git clone URL")
    expected = {
        "CITATION.cff",
        "CONTRIBUTING.md",
        "README.md",
        "docs/templates/README.md.in",
        "docs/index.md",
        "pyproject.toml",
    }
    (tmp_path / "docs/templates").mkdir(parents=True)
    for name in ("Makefile", *expected):
        shutil.copy(ROOT / name, tmp_path / name)
        assert name == "Makefile" or placeholder.search((ROOT / name).read_text()), name
    command = ["make", "addresses", "REPOSITORY=https://host/owner/name"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    for name in expected:
        text = (tmp_path / name).read_text()
        assert not placeholder.search(text), name
        assert "https://host/owner/name" in text, name


def test_every_benchmark_can_be_imported_and_none_replaces_a_module_of_python(monkeypatch):
    """A script's folder comes first where it imports."""
    names = {path.stem for path in (ROOT / "benchmarks").glob("*.py")}
    assert not names & sys.stdlib_module_names
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    for name in sorted(names):
        importlib.import_module(name)


def test_the_sizes_of_an_installation_are_the_benchmarks():
    page = (ROOT / "docs/install.md").read_text()
    table = re.findall(r"^\| `?(\w*)`? \| (.+) \| .* \| (\d*) \| (\d+) \|$", page, re.MULTILINE)
    assert [tuple(row.values()) for row in benchmark("install_size")] == table


def benchmark(name):
    """The rows of a benchmark's published table."""
    with (ROOT / f"docs/results/benchmarks/{name}.csv").open() as file:
        return list(csv.DictReader(file))


def test_interim_analyses_hold_alpha():
    bar = 0.05 + 3 * (0.05 * 0.95 / 10_000) ** 0.5
    for row in benchmark("interim_error"):
        if row["design"] == "undeclared interim analyses":
            continue
        for column in ("false_verdict_any_stopping", "false_equivalence_any_stopping"):
            if row[column]:
                assert float(row[column]) <= bar


def test_sessions_without_any_effect_rarely_have_a_certificate():
    rows = [row for row in benchmark("gate_error") if row["rule"] == "gate"]
    assert {row["world"] for row in rows} == {"nothing", "mix", "dry"}
    for row in rows:
        bar = 0.05 + 2 * (0.05 * 0.95 / int(row["sessions"])) ** 0.5
        assert float(row["false_certificate"]) <= bar, row
        assert abs(float(row["claimed"]) - float(row["true_gain"])) < 0.5, row


def test_equal_variants_rarely_differ_by_the_command():
    rows = benchmark("command_error")
    assert [row["kind"] for row in rows] == ["own", "shared", "drift", "unseeded", "margin"]
    for row in rows:
        bar = 0.05 + 2 * float(row["standard_error"])
        assert float(row["false"]) <= bar, row
        assert row["p_as_expected"] == row["studies"], "not the test of the losses that were printed"


def test_the_intervals_of_ladders_cover_and_their_verdicts_are_as_often_right_as_forecast(monkeypatch):
    rows = benchmark("ladder_coverage")
    error = 3 / 2000**0.5
    for row in rows:
        assert int(row["studies"]) == 2000
        assert 0.93 <= float(row["covers_speed_up"]) <= 0.97, row
        assert 0.93 <= float(row["covers_trend"]) <= 0.97, row
        assert float(row["false_verdict"]) <= 0.05 + error * (0.05 * 0.95) ** 0.5, row
        if row["trend"] == "detectable":
            assert float(row["grows"]) >= 0.9, row
        if row["trend"] == "-detectable":
            assert float(row["shrinks"]) >= 0.9, row
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    coverage = importlib.import_module("ladder_coverage")
    for row in rows:
        if row["trend"] != "detectable":
            continue
        law = coverage.law_of(float(row["speed_up"]), 0.0)
        spread = coverage.covariance(row["seeds_shared"])
        trend = detectable_trend(*coverage.DESIGN, coverage.SEEDS, law, spread)
        assert float(row["t"]) == pytest.approx(trend["tested"], rel=0.01), "measured with another forecast"


def test_pages_that_the_source_names_exist():
    for path in (ROOT / "src").rglob("*"):
        if path.suffix in (".py", ".toml", ".j2"):
            for page in re.findall(r"docs/[\w/-]+\.md", path.read_text()):
                assert (ROOT / page).exists(), f"{path}: {page}"


def test_every_verdict_and_every_column_of_significance_is_explained():
    verdicts = (ROOT / "docs/verdicts.md").read_text()
    _, *rows = re.findall(r"^\| ([a-z ]+) \|", verdicts, flags=re.MULTILINE)
    assert rows == list(VERDICTS)
    reference = (ROOT / "docs/reference/verdicts.md").read_text()
    _, _, rest = reference.partition("## significance.csv")
    columns, _, _ = rest.partition("\n\n## ")
    names = []
    for row in re.findall(r"^\| (`.*?) \|", columns, flags=re.MULTILINE):
        names += row.split(", ")
    assert names == [f"`{field.name}`" for field in fields(Comparison)]


def minutes(text):
    """The minutes in a text; of a range, the most."""
    total = sum(map(int, re.findall(r"(\d+) min", text)))
    if "half an hour" in text:
        total += 30
    elif "an hour" in text:
        total += 60
    return total


def least_minutes(text):
    """The fewest minutes in a text, which may have a range such as "4 to 12 min"."""
    span = re.search(r"(\d+) to \d+ min", text)
    if span:
        return int(span[1])
    return minutes(text)


def test_pages_and_the_list_of_suites_agree_on_how_long_a_suite_takes():
    faq = (ROOT / "docs/project/faq.md").read_text()
    times = dict(re.findall(r"^\| `([\w-]+)` \| .* \| (.*) \|$", faq, re.MULTILINE))
    assert sorted(times) == suite_names()
    for suite, time in times.items():
        page = ROOT / f"docs/results/{suite}/README.md"
        if page.exists():
            for other in re.findall(r"^\| machine \|.*", page.read_text(), re.MULTILINE):
                assert minutes(other) >= 0.75 * least_minutes(time), (suite, other)
                if "while other programs ran" not in other:
                    assert minutes(other) <= 1.25 * minutes(time), (suite, other)
        described = minutes(load_suite(suite).description)  # some only say "minutes"
        assert described in (0, pytest.approx(minutes(time), rel=0.25)), (suite, described)


def test_texts_use_the_words_of_the_field():
    odd = re.compile(ODD, re.IGNORECASE)
    files = [ROOT / "README.md", ROOT / "CHANGELOG.md"]
    for folder in ("src", "tests", "benchmarks", "examples", "docs"):
        files += (ROOT / folder).rglob("*.*")
    found = []
    for path in files:
        if path.suffix not in TEXTS or path == Path(__file__) or "egg-info" in str(path):
            continue
        for line in path.read_text().splitlines():
            if odd.search(line):
                found.append(f"{path.relative_to(ROOT)}: {line.strip()}")
    assert not found
