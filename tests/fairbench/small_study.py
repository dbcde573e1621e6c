"""A small study that really ran, with a long name, an optimizer that diverges, and two arenas."""

import pytest
from tiny import TINY, run_here, write_tiny

from fairbench.cli.main import main
from fairbench.training.determinism import one_thread

LONG_NAME = "schedule_free_adamw_beta2_0.999_no_decay"
"""It has 40 characters."""

ARENA = """
sweep_steps = 4
steps = 8
batch_size = 16
data = { source = "digits" }
model = { hidden_size = 8, layers = 1, heads = 1, patch_size = 4 }
"""
COMPARED = 'compare = { optimizers = ["PsiLogic"], baselines = ["all"] }'
SMALL = f"""{COMPARED}
{TINY.partition("[training]")[0].replace("budget = 3", "")}
[training]
clip_norm = 1.0
warmup_steps = 0
log_every = 2

[arenas.vit]
metric = "accuracy"
margin = 0.02
{ARENA}
[arenas.vit-loss]
task = "vit"
metric = "loss"
margin = 0.1
{ARENA}
[optimizers.AdamW]
options = {{ weight_decay = 0.01 }}

[optimizers.PsiLogic]
lr = 0.01
options = {{ weight_decay = 0.01, chaos_warmup = 0 }}

[optimizers."{LONG_NAME}"]
factory = "torch.optim:AdamW"
lr = 0.01

[optimizers.Explodes]
factory = "own_optimizers:Explodes"
lr = 0.01
"""


@pytest.fixture(scope="session")
def small_study(tmp_path_factory):
    """The directory of the study, with its page and tables."""
    folder = tmp_path_factory.mktemp("small")
    write_tiny(folder, SMALL)
    with pytest.MonkeyPatch.context() as patch, one_thread():
        run_here(patch, folder)
        assert main(["run", "--suite", "tiny.toml", "--output-dir", "out", "--workers", "1"]) == 0
    return folder / "out"
