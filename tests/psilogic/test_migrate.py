"""The page about moving from AdamW and from the published package: its tables are complete."""

import ast
import pkgutil
import re
from pathlib import Path

import torch
from published import write

from psilogic import PsiLogic
from psilogic.published_calls import GONE

PAGE = (Path(__file__).parents[2] / "docs/migrate.md").read_text()
NAMES = (
    "PsiLogicWhisper",
    "nlp_param_groups",
    "vit_param_groups",
    "gpt_param_groups",
    "nlp_defaults",
    "vision_defaults",
    "gpt_scratch_defaults",
    "whisper_defaults",
    "glue_defaults",
    "get_chaos_metrics",
    "is_fused_available",
    "infer_architecture",
    "build_auto_optimizer",
)
"""What `from psilogic import` found in 0.3.0 to 0.6.0 and does not find here."""


def table(heading):
    """The first two columns of the first table after a heading."""
    section = PAGE.partition(heading)[2].partition("\n#")[0]
    _, *rows = re.findall(r"^\| (.*?) \| (.*) \|$", section, re.MULTILINE)
    return rows


def test_the_options_on_the_page_give_the_steps_of_0_6_0():
    """The whole training of the case of which 0.6.0 wrote the end into the file."""
    options = ast.literal_eval(re.search(r"^>>> as_in_0_6 = (.*)$", PAGE, re.MULTILINE)[1])
    file = Path(write.__file__).with_name("psilogic-0.6.0.pt")
    expected = dict(torch.load(file, weights_only=True)["default warm-up"]["end"])
    torch.testing.assert_close(trained(**options), expected, rtol=1e-4, atol=1e-5)
    without = trained()
    differences = [(without[name] - theirs).abs().max() for name, theirs in expected.items()]
    assert max(differences) > 0.05, "the options must matter"


def trained(**options):
    """The weights after the whole training, with further options."""
    net = write.start("default warm-up")
    optimizer = PsiLogic(net.parameters(), lr=0.02, **write.CASES["default warm-up"], **options)
    write.train(net, optimizer, 1, write.END)
    return dict(net.state_dict())


def test_arguments_and_names_that_are_gone_are_on_the_page():
    gone = []
    for arguments, _ in table("These arguments are gone"):
        gone += re.findall(r"`(\w+)`", arguments)
    assert sorted(gone) == sorted(GONE)
    old_names = " ".join(old for old, _ in table("### Names"))
    for name in NAMES:
        assert f"`{name}`" in old_names


def test_the_new_names_on_the_page_exist():
    new_names = " ".join(new for _, new in table("### Names"))
    paths = re.findall(r"`(psilogic\.[\w.]+)`", new_names)
    assert paths
    for path in paths:
        pkgutil.resolve_name(path)
