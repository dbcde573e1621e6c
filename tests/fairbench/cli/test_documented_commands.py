"""Every example on the pages works: Python, files and commands, in the order of the pages, in one folder of a user.

`mini` is replaced by SMALLER, once for all pages. FOLLOWED and NOT_RUN have what is not run, and why.
"""

import argparse
import hashlib
import json
import re
import shutil
import webbrowser
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import ClassVar

import archives
import pytest
from documented import DOCS, ROOT, User, block, examples, listed
from fabricated import stored
from tiny import TINY, run_here

import fairbench
from fairbench.arenas.program import TASK
from fairbench.cli import chosen
from fairbench.cli.choices import StudyChoice
from fairbench.cli.parser import parser
from fairbench.report import study as report
from fairbench.runner.executors.executor import NO_CHANGES
from fairbench.runner.executors.local import ProcessExecutor
from fairbench.runner.measurements import optimizer_and_seconds
from fairbench.suites.loader import load_suite
from fairbench.suites.overrides import overridden
from fairbench.training.environment import environment_of_program

pytestmark = [pytest.mark.xdist_group("pages"), pytest.mark.slow]

STEPS = 12
"""No trial of the arenas that the pages define is longer."""
SEEDS = 3
"""No study has more of them."""
SMALLER = TINY.replace("sweep_steps = 10", "sweep_steps = 6").replace("steps = 40", "steps = 6")
SMALLER = SMALLER.replace("budget = 3", "budget = 2")
"""What every page gets in place of the suite `mini`."""
MORE = {
    "command.md": "[optimizers.Lion]\n",
    "bring-your-own-arena.md": """
[arenas.gpt]
metric = "loss"
margin = 0.02
sweep_steps = 5
steps = 5
batch_size = 8
data = { source = "stdlib", context = 16, evaluated = 16 }
model = { hidden_size = 8, layers = 1, heads = 1 }

[arenas.resnet]
metric = "accuracy"
margin = 0.02
sweep_steps = 5
steps = 5
batch_size = 2
data = { source = "digits", image_size = 16 }
model = { width = 2 }
""",
}
"""And what it has besides on the pages that name it."""

GUIDES = [*listed("Tutorials"), *listed("How-to")]
FIRST = [DOCS / "index.md", ROOT / "README.md", *GUIDES]
PAGES = [*FIRST, ROOT / "Makefile", *sorted({*DOCS.rglob("*.md")} - {*FIRST})]


def run_options(options):
    """Everything that `run`, `plan` and `slurm` do before they read data and begin to train."""
    options.device = options.device or "cuda"  # implied by slurm's --gres
    defaults = parser().parse_args(["run"])
    chosen.chosen_run_options(argparse.Namespace(**{**vars(defaults), **vars(options)}))
    in_new_directory = argparse.Namespace(**vars(options))
    in_new_directory.output_dir = None  # the page's directory has `mini` here
    choice = StudyChoice(in_new_directory)
    chosen.target_of(choice, chosen.chosen_suite(choice))


def only_parsed(options):
    """Nothing more than that the parser takes the options."""


FOLLOWED = {}
FOLLOWED[r"run .*(ablation|shock|zoo|ladder|schedules)"] = run_options, "train for up to days"
FOLLOWED[r"run .*--seeds 10"] = run_options, "trains 40 times"
FOLLOWED[r"(run|plan) .*(paper|--data-root)"] = run_options, "want the paper's data, and most of them a GPU"
FOLLOWED[r"run .*--timing"] = run_options, "has longer trials besides; test_main.py runs it"
FOLLOWED[r"run .*--ray"] = run_options, "start a cluster, or need one; test_ray.py does"
FOLLOWED[r"run mini --output-dir (results|shared)/mini$"] = run_options, "is the first study again"
FOLLOWED[r"run mini .*--reference Lion"] = run_options, "differs from the first study by its options alone"
FOLLOWED[r"run (--suite )?sines\.toml"] = run_options, "trains the arena of the page three times"
FOLLOWED[r"run smoke"] = run_options, "is nearly the smaller suite"
FOLLOWED[r"run --program"] = run_options, "starts torch for each trial; test_programs.py runs such a study"
FOLLOWED[r"noise"] = only_parsed, "starts the program; test_variant_studies.py does it"
FOLLOWED[r"verdicts results/flag"] = only_parsed, "needs that study; test_variant_studies.py does it"
FOLLOWED[r"verdicts '?(runs|logs|seeds)"] = only_parsed, "needs files of many runs; test_table_files.py reads some"
FOLLOWED[r"plan --freeze"] = run_options, "comes before the first trial; test_main.py does it"
FOLLOWED[r"slurm"] = run_options, "wants the paper's data; test_slurm.py runs it"
FOLLOWED[r"check MyRule-slow"] = only_parsed, "takes as long as the first check"
FOLLOWED[r"gate"] = only_parsed, "needs a git repository with a program; gate/test_commands.py has some"
FOLLOWED[r"data (download|prepare$)"] = only_parsed, "want the network, or the archives of all datasets"
"""Commands that are not run, as a page has them: how far they are followed, and why no further."""
NOT_RUN = {
    r"\.?/?(\S*bin/)?pip |python -m venv |!git clone |(\S+=\S+ )*make ": "need the network, or run everything",
    r"sbatch |rsync ": "need a cluster or another machine; test_slurm.py has a mock of Slurm",
}
"""Lines of shell blocks in tutorials and how-tos that call another program, and why they are not run."""

LINKS = {"results/full": "mini", "shared": "results", "DIR": "results/mini", "A": "results/mini", "B": "results/mine"}
"""What stands for a name that the user chooses."""


def write_files():
    """The files and folders that the pages show, or tell the user to have."""
    table = block("tables-from-elsewhere.md", "arena,optimizer,seed,value,better")
    Path("FILE.csv").write_text(table)
    Path("my_table.csv").write_text(table)
    sources = sorted((ROOT / "src/psilogic").rglob("*.py"))
    Path("book.txt").write_text("\n".join(source.read_text() for source in sources))
    write_suites()
    Path("perceptron.py").write_text(block("bring-your-own-arena.md", "class Perceptron"))
    Path("texts").mkdir()
    for i, source in enumerate(sources):
        Path(f"texts/{i}.txt").write_text(f"{i}: {source.read_text()}")
    for name, target in LINKS.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).symlink_to(target)
    archives.write_images(Path("pictures"), 60, ("cat", "dog"), (8, 8))


def write_suites():
    """The suite files of the pages, with shorter searches."""
    searches = SMALLER[SMALLER.index("[sweep]") : SMALLER.index("[training]")]
    sines = block("bring-your-own-arena.md", "[arenas.sine-wide]")
    sines = re.sub(r"\[sweep\].*(?=\[training\])", searches, sines, flags=re.DOTALL)
    Path("sines.toml").write_text(sines)
    slow = block("bring-your-own-optimizer.md", "[optimizers.MyRule-slow]")
    Path("my_suite.toml").write_text(SMALLER + slow)
    Path("my.toml").write_text(with_data(block("bring-your-own-arena.md", 'path = "texts"')))
    page = (DOCS / "paper-study.md").read_text()
    (text,) = re.findall(r'`(data = \{ source = "text".*?\})`', page)
    Path("mine.toml").write_text(with_data(f"[arenas.gpt]\n{text}\n"))


def with_data(tables):
    """The smaller suite with the data of a page in its arenas."""
    suite = SMALLER + MORE["bring-your-own-arena.md"]
    for name, data in re.findall(r"\[arenas\.(\w+)\]\n(data = .*)", tables):
        suite = re.sub(rf"(\[arenas\.{name}\]\n(?:.+\n)*?)data = .*", rf"\1{data}", suite)
    return suite


def shortened(suite, changes):
    """A suite with the changes of a command, few seeds, and short trials in the arenas of the pages."""
    suite = overridden(suite, changes)
    suite = replace(suite, final=replace(suite.final, seeds=suite.final.seeds[:SEEDS]))
    arenas = dict(suite.arenas)
    for name, plan in arenas.items():
        if ":" in plan.task and plan.task != TASK:
            arenas[name] = replace(plan, steps=STEPS, sweep_steps=STEPS)
    return replace(suite, arenas=arenas)


def drawn_once(draw):
    """Only the first study has figures, in each size: they take most of a report's time."""
    drawn = set()

    def draw_figures(analyses, *size):
        if size in drawn:
            return []
        drawn.add(size)
        return draw(analyses, *size)

    return draw_figures


class TrainedOnce(ProcessExecutor):
    """Trains a trial that several studies have only once, and gives its record to all of them. So with measurements."""

    records: ClassVar = {}
    results: ClassVar = {}

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.known = []

    def submit(self, spec, limit, changes=NO_CHANGES):
        if spec.id in self.records:
            self.known.append(self.records[spec.id])
        else:
            super().submit(spec, limit, changes)

    def call(self, function, *arguments):
        key = repr((function, arguments))
        if function is optimizer_and_seconds:
            study, name, plan, slot, probed = arguments
            key = repr((name, plan, slot, probed, study.arenas, study.suite.arenas, study.suite.training))
        if key not in self.results:
            self.results[key] = super().call(function, *arguments)
        return self.results[key]

    def collect(self, patience=inf):
        if self.known:
            return [self.known.pop()]
        ended = super().collect(patience)
        for record in ended:
            self.records[record.id] = record
        return ended


@pytest.fixture(scope="module")
def user(tmp_path_factory):
    folder = tmp_path_factory.mktemp("user")
    suites = tmp_path_factory.mktemp("included") / "suites"
    shutil.copytree(Path(fairbench.__file__).parent / "suites", suites)
    user = User(FOLLOWED, NOT_RUN, GUIDES)
    with pytest.MonkeyPatch.context() as patch:
        run_here(patch, folder)
        patch.setenv("COLUMNS", "120")
        patch.setattr("fairbench.suites.loader.SUITES", suites)
        patch.setattr("fairbench.suites.loader.overridden", shortened)
        patch.setattr(report, "draw_figures", drawn_once(report.draw_figures))
        patch.setattr("fairbench.runner.executors.local.ProcessExecutor", TrainedOnce)
        patch.setattr("fairbench.api.preview.ProcessExecutor", TrainedOnce)
        patch.setattr(webbrowser, "open", lambda address: Path(address.removeprefix("file://")).is_file())
        write_files()
        for page in PAGES:
            (suites / "mini.toml").write_text(SMALLER + MORE.get(page.name, ""))
            user.read(page)
        yield user
    environment_of_program.cache_clear()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_of_a_page_run(user, page):
    assert not user.wrong[page], "\n".join(user.wrong[page])


def test_many_examples_were_found(user):
    assert len(user.shown) > 40
    kinds = [x.kind for page in PAGES for x in examples(page)]
    assert kinds.count("python") + kinds.count("pycon") > 12
    assert set(kinds) <= {"python", "pycon", "sh", "inline", "text", "toml", "csv", "bibtex"}


def test_the_page_on_optimizers_is_what_its_commands_do(user):
    new = user.printed("new-optimizer my_rule")
    checked = user.printed("check my_rule.py:MyRule")
    tried = user.printed("try my_rule.py:MyRule --baselines AdamW,Lion")
    for command in ("check", "try", "run mini --add-optimizer"):
        assert f"    fairbench {command} my_rule.py:MyRule" in new
    assert Path("my_rule.py").read_text() == block("bring-your-own-optimizer.md", "class MyRule")
    assert checked.endswith("0 fail, 0 warn, 3 note, 18 pass\n")
    assert tried.startswith("A preview, not a result: vit, accuracy (higher is better)")
    assert any(line.split() == ["lr", "AdamW", "Lion", "MyRule"] for line in tried.splitlines())
    assert [line.split()[0] for line in tried.splitlines() if line.startswith("0.")] == ["0.0003", "0.001", "0.003"]
    assert [written for command, written in user.written.items() if command.startswith("try ")] == [set(), set()]
    assert "vit    PsiLogic" in user.printed("run mini -o results/my_rule")
    assert {"MyRule", "MyRule-slow"} < load_suite("my_suite.toml").optimizers.keys()


def test_a_grid_and_options_of_a_command_are_those_of_the_trials(user):
    specs = [stored(path)["spec"] for path in Path("results/tuned/trials").glob("*.json")]
    tried = [x["optimizer"] for x in specs if x["stage"] == "sweep"]
    rates = [x["options"]["lr"] for x in tried if x["name"] == "MyRule"]
    assert (len(rates), min(rates), max(rates)) == (7, 1e-5, 1e-2)
    options = {x["optimizer"]["name"]: x["optimizer"]["options"] for x in specs}
    assert (options["MyRule"]["weight_decay"], options["AdamW"]["betas"]) == (0.1, [0.9, 0.95])


def test_a_plan_and_records_have_the_name_of_a_users_file_and_its_hash_and_nothing_of_this_machine(user):
    results = Path("results/my_rule")
    config = (results / "config.json").read_text()
    (plan,) = json.loads(config)["plans"]
    assert plan["study"]["suite"]["optimizers"]["MyRule"]["factory"] == "my_rule.py:MyRule"
    content = hashlib.sha256(Path("my_rule.py").read_bytes()).hexdigest()
    assert plan["study"]["optimizers"]["MyRule"]["code"]["my_rule_py"] == content[:16]
    specs = [stored(path)["spec"] for path in (results / "trials").glob("*.json")]
    factories = {spec["optimizer"]["factory"] for spec in specs if spec["optimizer"]["name"] == "MyRule"}
    assert factories == {"my_rule.py:MyRule"}
    assert str(Path.cwd()) not in json.dumps(specs) + config


def test_the_page_on_arenas_is_what_its_commands_do(user):
    assert Path("noisy_sine.py").read_text() == block("bring-your-own-arena.md", "class NoisySine")
    (command,) = (x for x in user.shown if x.startswith("run --arenas noisy_sine.py"))
    assert f"fairbench {command}\n" in user.printed("new-arena")
    widths = {name: plan.model["width"] for name, plan in load_suite("sines.toml").arenas.items()}
    assert widths == {"sine": 64, "sine-wide": 256, "sine-long": 64}
    page = Path("results/noisy_sine/report.html").read_text()
    assert "MLP, noisy sine" in page
    assert "defined by the arena" in page
    assert "images (path pictures, size 32): prepared in" in user.printed("run --arenas vit,resnet")
    assert "images (path pictures, size 64): prepared in" in user.printed("data prepare --suite my.toml")
    assert "text (path texts, vocabulary 1024): prepared in" in user.printed("data prepare --suite my.toml")


def test_a_trial_that_several_studies_have_is_explained_by_its_file(user, command):
    said = command("explain", next(Path("results/mini/trials").glob("*.json")).stem, code=2)
    assert "full/trials" in said
    assert said.endswith("give one of these files\n")
