"""The commands that have verbs of their own: `gate`, `suite` and `data`."""

from __future__ import annotations

from pathlib import Path

from fairbench.cli.arguments import Parser, number, whole
from fairbench.cli.commands import DONE, Commands, add_command
from fairbench.cli.options import add_setting
from fairbench.cli.program_options import add_program_options

STOPPED = (
    "2 the user must change something; 3 the program failed; 70 fairbench failed; "
    "75 stopped by a signal, to be continued; 130 Ctrl-C"
)


def add_gate(commands: Commands[Parser]) -> None:
    """Add `gate`, which keeps a session of changes to a training program."""
    text = "Keep or drop changes of a training program one by one, and certify what was kept (docs/agents.md)."
    gate = commands.add_parser("gate", help=text, description=text)
    verbs = gate.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)
    text = "Begin a session in this git repository: train the program as it is with six seeds."
    example = '--program "python train.py" --metric val_bpb:min --seed-env SEED --protect prepare.py'
    codes = f"0 calibrated; {STOPPED}"
    init = add_command(verbs, "init", text, "gate:init", example=example, codes=codes, json=True)
    _add_gate_options(init)
    text = "Train a change with one to three seeds, and keep or drop it; nothing is claimed."
    codes = f"0 keep; 1 drop; {STOPPED}"
    tried = add_command(verbs, "try", text, "gate:try_commit", codes=codes, json=True)
    revision = "a commit, or @ for the working tree (default: HEAD, or the working tree if a tracked file differs)"
    tried.add_argument("revision", nargs="?", default="", metavar="REV", help=revision)
    text = "Compare everything that was kept since base with base, both trained now; only this reads a test split."
    codes = f"0 certified; 1 not, with the commit to return to; {STOPPED}"
    add_command(verbs, "certify", text, "gate:certify", codes=codes, json=True)
    text = "Show base, head, what is certified, what is left of the level, and the command that comes next."
    add_command(verbs, "status", text, "gate:status", json=True)
    text = "Show every step of the session."
    log = add_command(verbs, "log", text, "gate:log", example="--tsv")
    log.add_argument("--tsv", action="store_true", help="print tab-separated values, with all digits")
    text = "Remove each change alone from the certified stack, and say which may go."
    pruned = add_command(
        verbs, "prune", text, "gate:prune", example="--margin 0.0005", codes=f"0 done; {STOPPED}", json=True
    )
    margin = "largest difference of the metric that does not matter"
    pruned.add_argument("--margin", type=number, required=True, metavar="X", help=margin)


def _add_gate_options(command: Parser) -> None:
    """Add the options that declare a session."""
    add_program_options(command)
    add = command.add_argument
    steps = "steps of each run, which the program gets as {steps} (default: as long as the program trains)"
    add("--steps", type=whole, metavar="N", help=steps)
    test = "name of the same metric on a test split, which only certificates read"
    add("--test-metric", metavar="NAME", help=test)
    protect = "files that no try may change, such as 'eval/*'; may be repeated"
    add("--protect", action="append", default=[], metavar="GLOB", help=protect)
    add("--new", action="store_true", help="begin another session; the ledger of the last one stays")
    command.set_defaults(margin=1.0)  # no verdict of a session depends on it
    command.set_defaults(unseeded=False, variant=())


def add_suite(commands: Commands[Parser]) -> None:
    """Add `suite`, which shows and checks suite files."""
    text = "Show or check a suite file."
    suite = commands.add_parser("suite", help=text, description=text)
    verbs = suite.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)
    text = "Print the TOML of a suite, to be copied and changed."
    show = add_command(verbs, "show", text, "reading:suite_text", example="mini > my.toml")
    check = add_command(
        verbs, "check", "Check a suite file.", "catalog:check_suite", example="my.toml", codes="0 valid; 2 not"
    )
    for command in (show, check):
        command.add_argument("suite", metavar="SUITE", help="name or TOML file")


def add_data(commands: Commands[Parser]) -> None:
    """Add `data`, which prepares and checks datasets."""
    text = "Download, prepare and verify the datasets that suites need."
    data = commands.add_parser("data", help=text, description=text)
    verbs = data.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)
    text = "Show the datasets, their licenses, and the local files."
    shown = add_command(verbs, "list", text, "data:Datasets", example="--suite paper", json=True)
    text = "Download missing files, then prepare."
    download = add_command(verbs, "download", text, "data:prepare_datasets", example="--suite paper")
    text = "Make arrays from archives or downloaded files; never uses the network."
    prepare = add_command(verbs, "prepare", text, "data:prepare_datasets", example="--suite paper")
    text = "Compare prepared arrays with their manifests."
    codes = f"{DONE}; 1 arrays differ"
    verify = add_command(verbs, "verify", text, "data:verify", example="--suite paper", codes=codes)
    for command in (shown, download, prepare, verify):
        _add_dataset_options(command)
    for command in (download, prepare):
        _add_preparation_options(command)


def _add_dataset_options(command: Parser) -> None:
    """Add the options that choose datasets, and the folder in which the datasets are."""
    command.add_argument("--suite", metavar="S", help="the datasets of this suite (default: every dataset)")
    command.add_argument("--dataset", nargs="+", metavar="D", help="only these")
    add_setting(command, "an option of the one --dataset, such as vocabulary=4096; may be repeated")
    root = "folder of all data (default: data)"
    command.add_argument("--data-root", type=Path, metavar="DIR", default=Path("data"), help=root)


def _add_preparation_options(command: Parser) -> None:
    """Add the options that say how datasets are downloaded and prepared."""
    hub = "a local copy of the hub's files, DIR/owner/name/path"
    command.add_argument("--hub", type=Path, metavar="DIR", help=hub)
    unverified = "accept files whose hash differs from the known one, or of which none is known"
    command.add_argument("--unverified", action="store_true", help=unverified)
    command.add_argument("--again", action="store_true", help="also what is prepared already")
