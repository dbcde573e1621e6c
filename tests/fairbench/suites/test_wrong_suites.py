"""Mistakes in a suite file: each message names the file, the line of the key, the key, its value and the way out."""

from pathlib import Path

import pytest
from tiny import TINY, write_tiny

from fairbench.common.errors import UsageError
from fairbench.suites.loader import load_suite

VIT, ADAMW, OPTION = "[arenas.vit]", "[optimizers.AdamW]", "weight_decay = 0.01 }"
LIMITS = [
    ("lr_max = 1e-2", "lr_mx = 1e-2", "line 8: sweep.lr_mx: unknown key 'lr_mx'; did you mean 'lr_max'"),
    ("lr_max = 1e-2", "lr_max = 1e-4", "line 8: sweep.lr_max: must be above lr_min = 0.001, got 0.0001"),
    ("lr_max = 1e-2", 'lr_max = "high"', "line 8: sweep.lr_max: must be a number, got 'high'"),
    ("lr_max = 1e-2", "lr_max = inf", "line 8: sweep.lr_max: must be positive and finite, got inf"),
    ("lr_max = 1e-2", "lr_max = 1.0000001e-3", "line 9: sweep.points: gives rates that are not distinct"),
    ("lr_max = 1e-2", "lr_max = 1e99", "sweep.points: gives rates that are not finite: up to 4 may be"),
    ("points = 2", "points = 2.5", "line 9: sweep.points: must be a whole number, got 2.5"),
    ("points = 2", "points = 1", "line 9: sweep.points: must lie in [2, 100], got 1"),
    ("points = 2", "", "line 6: sweep.points: is missing"),
    ("budget = 3", "budget = 1", "line 10: sweep.budget: must be at least points = 2, got 1"),
    ("budget = 3", "budget = 2000", "line 10: sweep.budget: must lie in [0, 1000], got 2000"),
    ("settings = 1", "settings = 2", "line 17: final.settings: must be an odd number from 1 to 21, got 2"),
    ("evaluations = 1\n", "evaluations = 0\n", "line 12: sweep.evaluations: must lie in [1, 10000], got 0"),
    ("settings = 1", "halve_after = 0", "line 17: final.halve_after: must lie in [1, 1000], got 0"),
    ("seeds = [1, 2]", "seeds = [1, 1]", "line 15: final.seeds: must be distinct whole numbers in"),
    ("seeds = [1, 2]", f"seeds = [{10**26}]", "line 15: final.seeds: must be distinct whole numbers in [0, 2^63)"),
    ("seeds = [1, 2]", "", "line 14: final.seeds: is missing"),
    ("seeds = [1, 2]", "seeds = [1, 2]\nlooks = [1, 2]", "final.looks: must be two or more numbers of seeds that rise"),
    ("seeds = [1, 2]", 'seeds = [1, 2]\nspending = "pocok"', "final.spending: unknown spending 'pocok'; did you mean"),
    ("clip_norm = 1.0", "clip_norm = nan", "line 19: training.clip_norm: must lie in [0, 1000000000], got nan"),
    ("clip_norm", 'precision = "float16"\nclip_norm', "training.precision: unknown precision 'float16'; did you mean"),
    (
        "log_every",
        'schedule = "cosin"\nlog_every',
        "training.schedule: unknown schedule 'cosin'; did you mean 'cosine'",
    ),
    ("log_every", "min_lr = 1.0\nlog_every", "training.min_lr: must be a share of the peak in [0, 1), got 1.0"),
    ("log_every", "min_lr = nan\nlog_every", "training.min_lr: must be a share of the peak"),
    ("warmup_steps = 2", "warmup_steps = 10", "training.warmup_steps: must be at most 9, since the shortest"),
    ("log_every = 5", "log_every = 11", "training.log_every: must be at most 10, since the shortest trials have 10"),
    ("sweep_steps = 10", "sweep_steps = 10000000000", "arenas.vit.sweep_steps: must lie in [1, 1000000000]"),
    ("steps = 40", "steps = 2", "vit.steps: must lie in [3, 1000000000] (3 are taken before any trial), got 2"),
    (
        "margin",
        'tuned_on = "vit"\nmargin',
        "line 25: arenas.vit.tuned_on: must name an arena of the same task and metr",
    ),
    ("margin", 'tuned_on = "none"\nmargin', "line 25: arenas.vit.tuned_on: unknown arena 'none' (known: vit)"),
    ("margin = 0.02", "margin = 0", "arenas.vit.margin: must be positive and finite, got 0.0"),
    ("margin = 0.02", "margin = inf", "arenas.vit.margin: must be positive and finite, got inf"),
    ("margin", 'schedule = "step"\nmargin', "vit.schedule: unknown schedule 'step' (known: constant, cosine, linear"),
    (
        "hidden_size = 8",
        "hidden = 8",
        "line 30: arenas.vit.model.hidden: unknown key 'hidden'; did you mean 'hidden_si",
    ),
    ("hidden_size = 8", "hidden_size = 0", "line 30: arenas.vit.model.hidden_size: must be at least 1, got 0"),
    ("heads = 1, ", "", "line 30: arenas.vit.model.heads: is missing"),
    ("alpha = 0.05", "alpha = 5", "line 4: alpha: must lie between 0 and 1, got 5.0"),
    ("alpha = 0.05", "alpha = = 5", "tiny.toml, line 4: Invalid value; correct the TOML"),
    ("alpha", "trial_timeout = -1.0\nalpha", "line 4: trial_timeout: must be a number of seconds, or 0, got -1.0"),
    ("alpha", "checkpoint_every = -1.0\nalpha", "line 4: checkpoint_every: must be a number of seconds, or 0, got -1"),
    ("alpha", "compare = 'all'\nalpha", "line 4: compare: must be a table, got 'all'"),
    (
        "alpha",
        "compare = { optimizers = ['PsiLogik'] }\nalpha",
        "compare.optimizers: unknown optimizer 'PsiLogik'; did",
    ),
    ("alpha", "compare = { baselines = ['all', 'AdamW'] }\nalpha", "compare.baselines: unknown optimizer 'all'"),
    (
        "alpha",
        "compare = { baselines = ['AdamW', 'AdamW'] }\nalpha",
        "compare.baselines: must name each optimizer once",
    ),
    ("alpha", "compare = { optimizers = ['AdamW'] }\nalpha", "line 4: compare: has no pair of two; name an optimizer"),
    ("[optimizers.AdamW]", "[optimizers.all]", "optimizers.all: must not be 'all', which stands for every optimizer"),
    (
        "alpha",
        "controls = ['AdmW', 'PsiLogic']\nalpha",
        "line 4: controls: unknown optimizer 'AdmW'; did you mean 'Ada",
    ),
    ("alpha", "controls = ['AdamW']\nalpha", "controls: must have two or more optimizers, each once, got ['AdamW']"),
    ("alpha", "breaks = ['spilt']\nalpha", "line 4: breaks: unknown rule 'spilt'; did you mean 'split'"),
    (ADAMW, f"{ADAMW}\nmin_lr = -0.1", "optimizers.AdamW.min_lr: must be a share of the peak in [0, 1), got -0.1"),
    (ADAMW, f'{ADAMW}\nschedule = ""', "optimizers.AdamW.schedule: unknown schedule ''"),
    (ADAMW, f'{ADAMW}\nneeds = ["mode"]', "AdamW.needs: unknown need of the training loop 'mode'; did you mean 'mode"),
    (ADAMW, f"{ADAMW}\nlr = 0.0", "optimizers.AdamW.lr: must be positive and finite, got 0.0"),
    (ADAMW, f"{ADAMW}\nlr_scale = inf", "optimizers.AdamW.lr_scale: must be positive and finite, got inf"),
    (ADAMW, f"{ADAMW}\nlr_scale = 1e-323", "AdamW.lr_scale: gives rates that are not distinct, positive and finite"),
    (ADAMW, f"{ADAMW}\nlr = 1\nlr_scale = 1", "AdamW.lr_scale: scales searched rates, but with lr none is searched"),
    (OPTION, "lr = 0.1 }", "AdamW.options.lr: is selected by the sweep; leave it out, or fix the rate"),
    (OPTION, "lr = 0.1 }\nlr = 1", "AdamW.options.lr: is selected by the sweep; of AdamW none is searc"),
    (OPTION, "eps = 1 }\narenas = { vti = {} }", "optimizers.AdamW.arenas.vti: unknown arena 'vti'"),
]
NAMES = [
    ('metric = "accuracy"', 'metric = "acuracy"', "line 24: arenas.vit.metric: unknown metric 'acuracy'; did you mean"),
    ('reference = "AdamW"', 'reference = "AdamV"', "line 3: reference: unknown optimizer 'AdamV'; did you mean"),
    ("description", "name = '../evil'\ndescription", "tiny.toml: name = '../evil': a suite is named by its file"),
    ("[training]", "[trainign]\nclip_norm = 1\n[training]", "line 18: trainign: unknown key 'trainign'; did you mean"),
    (
        "[training]",
        "[optimizer.AdamW]\nlr = 1\n[training]",
        "line 18: optimizer: unknown key 'optimizer'; did you mean",
    ),
    (VIT, "[arenas.vti]", "line 23: arenas.vti: unknown arena 'vti'; did you mean 'vit'"),
    (VIT, '[arenas."@vit"]\ntask = "vit"', "line 23: arenas.@vit: must be made of letters, digits, spaces, '_', '-'"),
    (VIT, '[arenas."vit "]\ntask = "vit"', "arenas.vit : must be printable and not blank, without spaces at its ends"),
    (VIT, '[arenas."all arenas"]\ntask = "vit"', "line 23: arenas.all arenas: must not be 'all arenas', which stands"),
    (VIT, '[arenas.null]\ntask = "vit"', "line 23: arenas.null: must not be a word that programs read as a missing"),
    (ADAMW, "[optimizers.AdmW]", "line 32: optimizers.AdmW: unknown optimizer 'AdmW'; did you mean 'AdamW'"),
    (ADAMW, '[optimizers."Adam\\nW"]', "must be printable and not blank"),
    (ADAMW, '[optimizers." AdamW"]', "optimizers. AdamW: must be printable and not blank, without spaces at its ends"),
    (ADAMW, '[optimizers."=1+1"]', "line 32: optimizers.=1+1: must not begin with '=' or '@', which spreadsheets"),
    *(
        (ADAMW, f'[optimizers."{name}"]', "must not be a word that programs read as a missing value")
        for name in ("NA", "NaN", "None", "n/a", "<NA>")
    ),
]
EXTRA = [
    ("lr = [1, 2]", "lr: is always searched, from lr_min to lr_max; leave it out"),
    ("eps = [1e-8]", "eps: must be two or more values, each once, got [1e-08]"),
    ("eps = [1, 1.0]", "eps: must be two or more values, each once"),
    ("eps = [1, nan]", "eps: must be finite, got nan"),
    ("eps = [1, { a = 1 }]", "eps: must be numbers, strings, true or false, or lists of them, got {'a': 1}"),
    ("eps = 1", "eps: must be a list, got 1"),
    ("weight_decay = [0, -1]", "weight_decay: must be finite and not negative, got -1"),
    ("warmup_steps = [0, 0.5]", "warmup_steps: must be whole numbers of steps, got [0, 0.5]"),
    ("warmup_steps = [0, 100]", "warmup_steps: must be at most 9, since the shortest trials have 10 steps; got 100"),
]
SHOCKS = [
    ('kind = "losss"\nat = [0.5]', "line 24: shock.x.kind: unknown shock for this arena 'losss'; did you mean 'loss'"),
    ('kind = "loss"\nat = [1.0]', "line 25: shock.x.at: must be fractions of the training in [0, 1), got [1.0]"),
    ('kind = "loss"\nat = [0.1]\nfactor = -1.0', "shock.x.factor: must be positive and finite, got -1.0"),
    ('kind = "loss"\nat = [0.1]\nfactr = 1.0', "shock.x.factr: unknown key 'factr'; did you mean 'factor'"),
    ('kind = "loss"', "line 23: shock.x.at: is missing"),
]
DDPM = """[arenas.ddpm]
metric = "mse"
margin = 0.1
sweep_steps = 10
steps = 40
batch_size = 4
data = { source = "digits" }
model = { channels = [8], norm_groups = 4, attention_levels = [] }
"""
MADE = [
    ("alpha", "horizons = [1, 1]\nalpha", "line 4: horizons: must be positive numbers that rise, got [1.0, 1.0]"),
    ("alpha", "horizons = [2, 1]\nalpha", "line 4: horizons: must be positive numbers that rise, got [2.0, 1.0]"),
    ("alpha", "horizons = [0]\nalpha", "line 4: horizons: must be positive numbers that rise, got [0.0]"),
    ("alpha", "horizons = [1e308]\nalpha", "line 4: horizons: must be positive numbers that rise, got [1e+308]"),
    ("alpha", 'schedules = ["cosine", "wds"]\nalpha', "line 4: schedules: unknown schedule 'wds'; did you mean 'wsd'"),
    (
        "alpha",
        'schedules = ["wsd", "wsd"]\nalpha',
        "line 4: schedules: must name each schedule once, got ['wsd', 'wsd'",
    ),
    ("alpha", 'ladder = ["AdamW", "PsiLogic"]\nalpha', "line 4: ladder: must be a table, got ['AdamW', 'PsiLogic']"),
    (VIT, f"[ladder.vti]\nsizes = [32]\nhorizons = [1]\n{VIT}", "ladder.vti: unknown arena 'vti'; did you mean 'vit'"),
    (VIT, f"[ladder.vit]\nsizes = [8]\nhorizons = []\n{VIT}", "line 25: ladder.vit.horizons: must be positive"),
    (VIT, f"[ladder.vit]\nsizes = [8, 13]\nhorizons = [1]\n{VIT}", "ladder.vit.sizes: has 13, which gives 2 heads, of"),
    (VIT, f"[ladder.vit]\nsizes = [8]\nhorizons = [1]\n{VIT}", "metric: must be one whose minimum is best on a ladder"),
    (
        VIT,
        f"[ladder.ddpm]\nsizes = [8]\nhorizons = [1]\n{DDPM}{VIT}",
        "ladder.ddpm.sizes: arena DDPM has no method size",
    ),
]
"""Text of the file, what it is replaced by, and the message."""


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        *(*LIMITS, *NAMES, *MADE),
        *(("[final]", f"[sweep.extra]\n{new}\n[final]", f"sweep.extra.{complaint}") for new, complaint in EXTRA),
        *((VIT, f"[shock.x]\n{new}\n{VIT}", complaint) for new, complaint in SHOCKS),
    ],
)
def test_mistakes_are_named_with_key_and_line(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    assert old in TINY
    with pytest.raises(UsageError) as caught:
        load_suite(str(write_tiny(tmp_path, TINY.replace(old, new, 1))))
    assert complaint in str(caught.value)
    assert str(caught.value).startswith("tiny.toml")


TWO = TINY[TINY.index('metric = "acc') : TINY.index(ADAMW)]
"""The lines of an arena, for a second one."""


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {"alpha": "horizons = [2]\nalpha", ADAMW: f'[arenas."vit-x2"]\ntask = "vit"\n{TWO}{ADAMW}'},
            "arenas.vit-x2: has the name of an arena that is made of vit; rename it",
        ),
        (
            {ADAMW: f'[shock.x]\nkind = "nan"\nat = [0.5]\n[arenas.vit-x]\ntask = "vit"\n{TWO}{ADAMW}'},
            "arenas.vit-x: has the name of a twin with a shock; rename it",
        ),
        (
            {"alpha": "horizons = [2]\nalpha", VIT: f"[ladder.vit]\nsizes = [8]\nhorizons = [1]\n{VIT}"},
            "line 4: horizons: a suite with a ladder has them there, as in [ladder.gpt]; leave them out here",
        ),
        (
            {"alpha": 'schedules = ["cosine", "wsd"]\nalpha', ADAMW: f'{ADAMW}\nschedule = "linear"'},
            "AdamW.schedule: does not go with that: the suite trains every optimizer with each of its schedules (cosi",
        ),
        (
            {"settings = 1": "halve_after = 3", "seeds = [1, 2]": "seeds = [1, 2, 3, 4]\nlooks = [2, 4]"},
            "final.halve_after: must be at most 2, the first look; got 3",
        ),
        (
            {"[final]": "[sweep.extra]\neps = [1, 2]\n[final]", ADAMW: f"{ADAMW}\narenas = {{ vit = {{ eps = 1 }} }}"},
            "optimizers.AdamW.arenas.vit.eps: is selected by the sweep; leave it out",
        ),
    ],
)
def test_keys_that_do_not_go_together_are_named(tmp_path: Path, changes: dict[str, str], complaint: str) -> None:
    text = TINY
    for old, new in changes.items():
        text = text.replace(old, new, 1)
    with pytest.raises(UsageError, match=r"^tiny\.toml") as caught:
        load_suite(str(write_tiny(tmp_path, text)))
    assert complaint in str(caught.value)
