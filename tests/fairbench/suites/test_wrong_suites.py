"""Mistakes in a suite file: each message names the file, the line of the key, the key, its value and the way out.

`tests/expected/messages/suites.txt` has the message of every suite here.
"""

import pytest
from tiny import TINY, write_tiny

from fairbench.common.errors import UsageError
from fairbench.suites.loader import load_suite

VIT, ADAMW = "[arenas.vit]", "[optimizers.AdamW]"
INSTEAD = {
    "lr_max = 1e-2": (
        *("lr_mx = 1e-2", "lr_max = 1e-4", 'lr_max = "high"', "lr_max = inf", "lr_max = 1.0000001e-3", "lr_max = 1e99"),
    ),
    "points = 2": ("points = 2.5", "points = 1", ""),
    "budget = 3": ("budget = 1", "budget = 2000"),
    "evaluations = 1\n": ("evaluations = 0\n",),
    "settings = 1": ("settings = 2", "halve_after = 0"),
    "seeds = [1, 2]": (
        *("seeds = [1, 1]", f"seeds = [{10**26}]", ""),
        *("seeds = [1, 2]\nlooks = [1, 2]", 'seeds = [1, 2]\nspending = "pocok"'),
    ),
    "clip_norm = 1.0": ("clip_norm = nan", 'clip_norm = 1.0\nprecision = "float16"'),
    "warmup_steps = 2": ("warmup_steps = 10",),
    "log_every = 5": (
        *("log_every = 11", 'schedule = "cosin"\nlog_every = 5', "min_lr = 1.0\nlog_every = 5"),
        "min_lr = nan\nlog_every = 5",
    ),
    "sweep_steps = 10": ("sweep_steps = 10000000000",),
    "steps = 40": ("steps = 2",),
    "margin = 0.02": (
        *("margin = 0", "margin = inf", 'tuned_on = "vit"\nmargin = 0.02', 'tuned_on = "none"\nmargin = 0.02'),
        'schedule = "step"\nmargin = 0.02',
    ),
    "hidden_size = 8": ("hidden = 8", "hidden_size = 0"),
    "heads = 1, ": ("",),
    'metric = "accuracy"': ('metric = "acuracy"',),
    'reference = "AdamW"': ('reference = "AdamV"',),
    "alpha = 0.05": ("alpha = 5", "alpha = = 5"),
    "[training]": ("[trainign]\nclip_norm = 1\n[training]", "[optimizer.AdamW]\nlr = 1\n[training]"),
    VIT: (
        *("[arenas.vti]", '[arenas."@vit"]\ntask = "vit"', '[arenas."vit "]\ntask = "vit"'),
        *('[arenas."all arenas"]\ntask = "vit"', '[arenas.null]\ntask = "vit"'),
        *(f"[shock.x]\nkind = {shock}\n{VIT}" for shock in ('"losss"\nat = [0.5]', '"loss"\nat = [1.0]', '"loss"')),
        *(f'[shock.x]\nkind = "loss"\nat = [0.1]\n{factor}\n{VIT}' for factor in ("factor = -1.0", "factr = 1")),
        *(f"[ladder.vit]\nsizes = {sizes}\nhorizons = [1]\n{VIT}" for sizes in ([8, 13], [8])),
        f"[ladder.vti]\nsizes = [8]\nhorizons = [1]\n{VIT}",
        f"[ladder.vit]\nsizes = [8]\nhorizons = []\n{VIT}",
    ),
    ADAMW: (
        *(f'[optimizers."{name}"]' for name in ("all", "AdmW", "Adam\\nW", " AdamW", "=1+1")),
        *(f'[optimizers."{name}"]' for name in ("NA", "NaN", "None", "n/a", "<NA>")),
        *(f"{ADAMW}\n{line}" for line in ("min_lr = -0.1", 'schedule = ""', 'needs = ["mode"]', "lr = 0.0")),
        *(f"{ADAMW}\n{line}" for line in ("lr_scale = inf", "lr_scale = 1e-323", "lr = 1\nlr_scale = 1")),
    ),
    "weight_decay = 0.01 }": ("lr = 0.1 }", "lr = 0.1 }\nlr = 1", "eps = 1 }\narenas = { vti = {} }"),
}
"""Texts of the tiny suite, and what each is replaced by."""
ABOVE = (
    *("trial_timeout = -1.0", "checkpoint_every = -1.0", "name = '../evil'", "breaks = ['spilt']", "compare = 'all'"),
    *("compare = { optimizers = ['PsiLogik'] }", "compare = { baselines = ['all', 'AdamW'] }"),
    *("compare = { baselines = ['AdamW', 'AdamW'] }", "compare = { optimizers = ['AdamW'] }"),
    *("controls = ['AdmW', 'PsiLogic']", "controls = ['AdamW']", "ladder = ['AdamW', 'PsiLogic']"),
    *("horizons = [1, 1]", "horizons = [2, 1]", "horizons = [0]", "horizons = [1e308]"),
    *("schedules = ['cosine', 'wds']", "schedules = ['wsd', 'wsd']"),
)
"""Lines before the first key."""
EXTRA = (
    *("lr = [1, 2]", "eps = [1e-8]", "eps = [1, 1.0]", "eps = [1, nan]", "eps = [1, { a = 1 }]", "eps = 1"),
    *("weight_decay = [0, -1]", "warmup_steps = [0, 0.5]", "warmup_steps = [0, 100]"),
)
"""Lines of [sweep.extra]."""
TWO = TINY[TINY.index('metric = "acc') : TINY.index(ADAMW)]
"""The lines of an arena, for a second one."""
DDPM = (
    TWO.replace("accuracy", "mse").partition("model")[0]
    + "model = { channels = [8], norm_groups = 4, attention_levels = [] }"
)
"""Those of ddpm."""
TOGETHER = [
    {VIT: f"[ladder.ddpm]\nsizes = [8]\nhorizons = [1]\n[arenas.ddpm]\n{DDPM}\n{VIT}"},
    {"alpha": "horizons = [2]\nalpha", ADAMW: f'[arenas."vit-x2"]\ntask = "vit"\n{TWO}{ADAMW}'},
    {ADAMW: f'[shock.x]\nkind = "nan"\nat = [0.5]\n[arenas.vit-x]\ntask = "vit"\n{TWO}{ADAMW}'},
    {"alpha": "horizons = [2]\nalpha", VIT: f"[ladder.vit]\nsizes = [8]\nhorizons = [1]\n{VIT}"},
    {"alpha": 'schedules = ["cosine", "wsd"]\nalpha', ADAMW: f'{ADAMW}\nschedule = "linear"'},
    {"settings = 1": "halve_after = 3", "seeds = [1, 2]": "seeds = [1, 2, 3, 4]\nlooks = [2, 4]"},
    {"[final]": "[sweep.extra]\neps = [1, 2]\n[final]", ADAMW: f"{ADAMW}\narenas = {{ vit = {{ eps = 1 }} }}"},
]
"""Keys that do not go together."""


def test_mistakes_are_named_with_key_and_line(tmp_path, check_files):
    changes = [{old: new} for old, news in INSTEAD.items() for new in news]
    changes += [{'description = "': f'{line}\ndescription = "'} for line in ABOVE]
    changes += [{"[final]": f"[sweep.extra]\n{line}\n[final]"} for line in EXTRA]
    shown = []
    for change in [*changes, *TOGETHER]:
        text = TINY
        for old, new in change.items():
            assert old in text
            text = text.replace(old, new, 1)
        with pytest.raises(UsageError, match=r"^tiny\.toml") as caught:
            load_suite(str(write_tiny(tmp_path, text)))
        shown.append(f"{' and '.join(f'{old!r} -> {new!r}' for old, new in change.items())}\n    {caught.value}\n")
    (tmp_path / "suites.txt").write_text("".join(shown))
    check_files("messages", tmp_path / "suites.txt")
