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
    *("PsiLogicWhisper", "nlp_param_groups", "vit_param_groups", "gpt_param_groups", "nlp_defaults", "vision_defaults"),
    *("gpt_scratch_defaults", "whisper_defaults", "glue_defaults", "get_chaos_metrics", "is_fused_available"),
    *("infer_architecture", "build_auto_optimizer"),
)
"""What `from psilogic import` found in 0.3.0 to 0.6.0 and does not find here."""


def table(heading):
    """The first two columns of the first table after a heading."""
    return re.findall(r"^\| (.*?) \| (.*) \|$", PAGE.partition(heading)[2].partition("\n#")[0], re.MULTILINE)[1:]


def test_the_options_on_the_page_give_the_steps_of_0_6_0():
    """The whole training of the case of which 0.6.0 wrote the end into the file."""
    options = ast.literal_eval(re.search(r"^>>> as_in_0_6 = (.*)$", PAGE, re.MULTILINE)[1])
    content = torch.load(Path(write.__file__).with_name("psilogic-0.6.0.pt"), weights_only=True)["default warm-up"]
    ends = []
    for given in (options, {}):
        net = write.start("default warm-up")
        optimizer = PsiLogic(net.parameters(), lr=0.02, **write.CASES["default warm-up"], **given)
        write.train(net, optimizer, 1, write.END)
        ends.append(net.state_dict())
    torch.testing.assert_close(dict(ends[0]), dict(content["end"]), rtol=1e-4, atol=1e-5)
    assert max((ends[1][name] - theirs).abs().max() for name, theirs in content["end"].items()) > 0.05


def test_arguments_and_names_that_are_gone_are_on_the_page():
    gone = [name for cells in table("These arguments are gone") for name in re.findall(r"`(\w+)`", cells[0])]
    assert sorted(gone) == sorted(GONE)
    was = " ".join(cells[0] for cells in table("### Names"))
    assert [name for name in NAMES if f"`{name}`" not in was] == []


def test_the_new_names_on_the_page_exist():
    paths = re.findall(r"`(psilogic\.[\w.]+)`", " ".join(cells[1] for cells in table("### Names")))
    assert paths
    for path in paths:
        pkgutil.resolve_name(path)
