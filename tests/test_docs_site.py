"""The site of the documentation: its strict build, and what a browser finds in it."""

import gc
import inspect
import io
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from fairbench.cli.parser import parser
from fairbench.common.toml import tomllib
from fairbench.runner.executors.starting import ONE_THREAD
from psilogic import PsiLogic

pytest.importorskip("sphinx", reason="needs the dependency group docs, which Python 3.10 cannot install")

pytestmark = pytest.mark.xdist_group("site")  # one worker builds it
ROOT = Path(__file__).parent.parent


DOCS = ROOT / "docs"
REFERENCE = ("command", "data-files", "suite-keys", "psilogic")
"""The pages of the folder reference that are compared with the code."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site; a warning fails the build."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-n", "-W", "--keep-going", "-E", "-q", "docs", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """Some pages, by their names, built in this process; their links to other pages lead nowhere."""
    from sphinx.application import Sphinx

    folder = tmp_path_factory.mktemp("reference")
    built = [DOCS / "reference" / f"{name}.md" for name in REFERENCE]
    others = [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if page not in built]
    changes = {"exclude_patterns": ["ext", *others], "root_doc": f"reference/{REFERENCE[0]}"}
    thresholds = gc.get_threshold()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path])
        app = Sphinx(
            DOCS,
            DOCS,
            outdir=folder,
            doctreedir=folder / "doctrees",
            buildername="html",
            confoverrides=changes,
            status=None,
            warning=io.StringIO(),
        )
        app.build()
    gc.set_threshold(*thresholds)
    return {name: Page(folder / "reference" / f"{name}.html") for name in REFERENCE}


class Page(HTMLParser):
    """The links, anchors, loaded files, and pieces of code and names of arguments of a page."""

    def __init__(self, path):
        super().__init__()
        self.links = set()
        self.loaded = set()
        self.anchors = {""}
        self.codes = set()
        self._code = None
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.anchors.add(values.get("id"))
        target = values.get("href" if tag in ("a", "link") else "src")
        if target and tag == "a":
            self.links.add(target)
        elif target:
            self.loaded.add(target)
        if tag in ("code", "strong"):
            self._code = []

    def handle_data(self, data):
        if self._code is not None:
            self._code.append(data)

    def handle_endtag(self, tag):
        if tag in ("code", "strong") and self._code is not None:
            self.codes.add("".join(self._code))
            self._code = None


def broken(pages):
    """The targets within the site that are not there."""
    for path, page in pages.items():
        for target in page.links | page.loaded:
            file, anchor = urldefrag(unquote(target))
            location = path
            if file:
                name, _, _ = file.partition("?")
                location = (path.parent / name).resolve()
            if "://" not in target and not location.exists():
                yield f"{path}: {target}"
            elif location in pages and anchor not in pages[location].anchors:
                yield f"{path}: no anchor {target}"


@pytest.mark.soak  # `make docs` builds it for every change, tests/test_docs.py looks for the files that pages link to
def test_every_link_of_the_site_leads_somewhere_and_nothing_is_loaded_from_outside(site):
    pages = {path: Page(path) for path in site.resolve().rglob("*.html")}
    assert len(pages) > 60
    assert list(broken(pages)) == []
    for page in pages.values():
        for file in page.loaded:
            assert "//" not in file


@pytest.mark.soak
def test_the_name_of_a_test_leads_to_its_line(site):
    page = (site / "reference/stack.html").read_text()
    links = re.findall(r'"\.\./source/([^"]*)\.html#line-(\d+)">(?:<[^>]*>)*(test_\w+)<', page)
    assert len(links) > 50
    for file, line, name in links:
        lines = (ROOT / file).read_text().splitlines()
        assert f"def {name}(" in lines[int(line) - 1], name


def test_every_option_is_on_the_page_of_commands(reference, capsys):
    page = reference["command"]
    for command in ("run", "slurm", "status", "compare", "suite show", "data prepare", "new-arena"):
        with pytest.raises(SystemExit):
            parser().parse_args([*command.split(), "--help"])
        shown = capsys.readouterr().out.partition("example: ")[0]
        options = set(re.findall(r"(?<![\w=-])--[a-z-]+", shown))
        on_the_page = {code.partition(" ")[0] for code in page.codes}
        assert options - {"--help"} <= on_the_page, command
        assert f"fairbench-{command.replace(' ', '-')}" in page.anchors


def test_every_column_that_a_study_wrote_is_on_the_page_of_data_files(reference):
    page = reference["data-files"]
    configs = list((ROOT / "docs/results").glob("*/config.json"))
    assert configs
    searched = {"betas", "warmup_steps"}
    for config in configs:
        for file in config.parent.glob("*.csv"):
            head, _, _ = file.read_text().partition("\n")
            assert set(head.split(",")) - searched <= page.codes, file
            assert anchor(file.name) in page.anchors


def test_suite_keys_and_arguments_are_on_their_pages(reference):
    keys = set()
    for suite in (ROOT / "src/fairbench/suites").glob("*.toml"):
        keys |= set_keys(suite.read_text())
    assert keys - reference["suite-keys"].codes == set()
    assert set(inspect.signature(PsiLogic).parameters) <= reference["psilogic"].codes


def test_every_environment_variable_of_the_source_is_on_its_page():
    used = {"HF_HUB_OFFLINE", *ONE_THREAD}
    for path in (ROOT / "src/fairbench").rglob("*.py"):
        source = path.read_text()
        used.update(re.findall(r"environ(?:\.get\(|\.setdefault\(|\[)\"(\w+)\"", source))
        used.update(re.findall(r"\bSLURM_[A-Z_]+", source))
    page = (ROOT / "docs/reference/command.md").read_text()
    on_the_page = set(re.findall(r"`(\w+)`", page))
    assert used <= on_the_page
    assert len(used) > 10


def anchor(heading):
    """The anchor of a heading."""
    return re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-")


def set_keys(toml):
    """The keys in the tables of a suite file that are no tables themselves."""
    suite = tomllib.loads(toml)
    tables = [suite, suite["sweep"], suite["final"], suite["training"]]
    tables += suite["arenas"].values()
    tables += suite["optimizers"].values()
    keys = set()
    for table in tables:
        for key, value in table.items():
            if type(value) is not dict:
                keys.add(key)
    return keys
