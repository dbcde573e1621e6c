"""Anyone's table is judged as scipy and statsmodels judge its numbers, or refused with the choice that it leaves."""

import ast
import csv
import io
import json
import sys
from importlib import import_module
from pathlib import Path

import pytest
from scipy import stats

import fairbench as fb
from fairbench.common.errors import UsageError

TABLES = Path(__file__).parent / "tables"
"""Ten tables in the forms of different programs."""
VALUES = {
    ("gpt", "Mine"): (1.50, 1.52, 1.49, 1.55), ("gpt", "AdamW"): (1.60, 1.64, 1.59, 1.66),
    ("gpt", "+Lion"): (1.51, 1.53, 1.47, 1.56), ("vit", "Mine"): (0.61, 0.60, 0.66, 0.64),
    ("vit", "AdamW"): (0.60, 0.55, 0.57, 0.58), ("vit", "+Lion"): (0.64, 0.60, 0.66, 0.61),
}  # fmt: skip
BETTER = {"gpt": "lower", "vit": "higher"}


@pytest.fixture
def pandas():
    """It takes a second to load."""
    return import_module("pandas")


@pytest.fixture
def by_seed(tmp_path):
    rows = [(*arm, seed, x, BETTER[arm[0]]) for arm, values in VALUES.items() for seed, x in enumerate(values)]
    return write(tmp_path / "by_seed.csv", "arena,optimizer,seed,value,better", *rows)


def write(path, head, *rows):
    with path.open("w", encoding="utf-8-sig", newline="") as file:  # as spreadsheets write it
        csv.writer(file).writerows([head.split(","), *rows])
    return path


def test_the_tests_are_those_of_scipy_and_statsmodels(by_seed):
    judged = fb.verdicts(by_seed)
    assert [(c.arena, c.optimizer, c.baseline) for c in judged] == [
        (arena, "Mine", baseline) for arena in BETTER for baseline in ("AdamW", "+Lion")
    ]
    tests = [stats.ttest_rel(VALUES[c.arena, "Mine"], VALUES[c.arena, c.baseline]) for c in judged]
    assert {c.test for c in judged} == {"paired"}
    assert_judged_by(judged, tests)


def holm(ps):
    """The corrected values of statsmodels, which takes a second to load, and whether each is significant."""
    from statsmodels.stats.multitest import multipletests

    rejected, corrected, *_ = multipletests(ps, method="holm")
    return [*rejected], corrected


def assert_judged_by(judged, tests):
    """The comparisons are those of scipy's tests, with the correction of statsmodels, and the first one is a win."""
    assert [c.p for c in judged] == pytest.approx([test.pvalue for test in tests])
    rejected, corrected = holm([test.pvalue for test in tests])
    assert [c.p_holm for c in judged] == pytest.approx(corrected)
    assert [c.verdict == "better" for c in judged] == rejected == [True, False, False, False]
    sign = [-1 if BETTER[c.arena] == "lower" else 1 for c in judged]
    ends = [sorted(s * x for x in test.confidence_interval()) for s, test in zip(sign, tests, strict=True)]
    assert [x for c in judged for x in (c.ci_low, c.ci_high)] == pytest.approx([x for pair in ends for x in pair])


def test_means_and_standard_deviations_are_judged_by_welchs_test(by_seed, tmp_path):
    summaries = [(*arm, len(x), stats.tmean(x), stats.tstd(x), BETTER[arm[0]]) for arm, x in VALUES.items()]
    table = write(tmp_path / "summaries.csv", "arena,optimizer,n,mean,std,better", *summaries)
    of_seeds, of_summaries = fb.verdicts(by_seed), fb.verdicts(table)
    tests = [
        stats.ttest_ind(VALUES[c.arena, "Mine"], VALUES[c.arena, c.baseline], equal_var=False) for c in of_summaries
    ]
    assert_judged_by(of_summaries, tests)
    assert {c.test for c in of_summaries} == {"welch"}
    for name in ("arena", "baseline", "gain", "hedges_g", "seeds"):
        expected = [getattr(c, name) for c in of_seeds]
        assert [getattr(c, name) for c in of_summaries] == pytest.approx(expected), name
    assert [c.p for c in of_summaries] == pytest.approx([c.p_other for c in of_seeds])


def test_a_smaller_family_another_reference_and_direction(by_seed):
    gpt, vit = fb.verdicts(by_seed, "AdamW", "higher", baselines="Mine")
    assert (gpt.verdict, gpt.baseline, vit.baseline) == ("better", "Mine", "Mine")
    assert [gpt.p_holm, vit.p_holm] == pytest.approx(holm([gpt.p, vit.p])[1])


def test_each_pair_is_judged_by_what_it_has(tmp_path, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    rows = [("gpt", "Mine", 1, 1.5), ("gpt", "Mine", 2, 1.6), ("gpt", "AdamW", 1, "diverged"), ("gpt", "AdamW", 2, 1.5)]
    rows += [("gpt", "Lion", 1, 1.5), ("gpt", "SGD", 2, "OOM"), ("vit", "Mine", 1, 1.0), ("vit", "Lion", 1, 1.0)]
    table = write(tmp_path / "lost.csv", "arena,optimizer,seed,value", *rows)
    judged = fb.verdicts(table, better="lower")
    assert [c.statement for c in judged] == [
        "diverged (AdamW diverged 1/2)", "inconclusive (fewer than 2 seeds, no test)",
        "incomplete (SGD without a value 1/1)", "identical values (in every seed)",
    ]  # fmt: skip
    shown = command("verdicts", str(table), "--better", "lower")
    assert all(c.statement in shown for c in judged)
    assert "Mine is better in 0 of 4 comparisons at 0.05" in shown


def test_unequal_seeds_are_paired_where_two_are_shared_and_otherwise_judged_by_welchs_test():
    mine, base = {0: 1.5, 1: 1.53, 2: 1.51, "3.0": 1.4}, {"0.0": 1.6, 1: 1.61, 2: 1.65, 7: 1.9, 8: 1.2}
    rows = [{"optimizer": name, "seed": s, "loss": x} for name, of in (("a", mine), ("b", base)) for s, x in of.items()]
    (c,) = fb.verdicts(rows)
    assert c.p == pytest.approx(stats.ttest_rel([1.5, 1.53, 1.51], [1.6, 1.61, 1.65]).pvalue)
    assert (c.verdict, c.seeds, c.note) == ("better", 3, "3 seeds in common, of 4 and 5")
    (c,) = fb.verdicts([row | {"seed": f"{row['optimizer']}{row['seed']}"} for row in rows])
    assert c.p == pytest.approx(stats.ttest_ind([*mine.values()], [*base.values()], equal_var=False).pvalue)
    assert c.note == "Welch's test, no seed in common"


@pytest.mark.parametrize(
    ("name", "options", "expected", "notes"),
    [
        ("wandb_runs.csv", {"metric": "val/loss"}, ("muon", "adamw", 3, 3.281667, 3.332333, 0.05066667), 1),
        ("wandb_chart.csv", {"at": "last"}, ("muon", "adamw", 2, 3.275, 3.34, 0.065), 5),
        ("mlflow_runs.csv", {"metric": "test_accuracy"}, ("adam", "sgd", 2, None, None, None), 1),
        ("tensorboard_scalars.csv", {"metric": "loss/eval", "at": "best"}, ("lion", "adamw", 2, 2.22, 2.325, 0.105), 2),
        (
            "algoperf_curves.csv", {"columns": {"seed": "study"}, "at": 2000},
            ("shampoo", "nadamw", 2, 0.724, 0.7224, 0.0016), 0,
        ),
        ("huggingface_results.jsonl", {"metric": "eval_loss"}, ("adamw_torch", "adafactor", 2, 0.415, 0.435, 0.02), 1),
        ("optuna_trials.csv", {"better": "lower"}, ("Ranger", "Adam", 2, 0.315, 0.3355, 0.0205), 0),
        ("readme_table.md", {"columns": {"n": "3"}}, ("SAM", "SGD", 3, 97.3, 96.6, 0.7), 2),
        (
            "spreadsheet.csv",
            {"columns": {"arena": "Datensatz", "optimizer": "Verfahren", "seed": "Lauf"}, "better": "higher"},
            ("Neu", "Adam", 2, 98.5, 98.15, 0.35),
            0,
        ),
        ("pandas_summary.csv", {"metric": "test_ppl"}, ("soap", "adamw", 4, 21.4, 22.1, 0.7), 1),
    ],
)  # fmt: skip
def test_tables_of_other_programs(name, options, expected, notes):
    (c,), found = (judged := fb.verdicts(TABLES / name, **options)), judged.notes
    numbers = c.n_optimizer, c.mean_optimizer, c.mean_baseline, c.gain
    assert (c.optimizer, c.baseline) == expected[:2]
    assert numbers == pytest.approx(expected[2:])
    assert len(found) == notes, found
    with pytest.raises(UsageError, match=r"(?s)Give --|give --|a mean of how many seeds"):
        fb.verdicts(TABLES / name)


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("automlbenchmark.csv", {"metric": "auc"}, ("kr-vs-kp", "autosklearn", "TPOT", 3, 0.9864667, 0.9817667)),
        ("gate_networks.md", {"metric": "test acc", "seed": "point"}, ("MNIST", "backprop", "dfa", 2, 97.265, 91.43)),
        ("modded_nanogpt.csv", {}, ("final_loss", "baseline", "weighted_r8", 3, 3.2795333, 3.2741)),
        (
            "molprop_runs.csv",
            {"metric": "test_rmse", "arena": "dataset+experiment"},
            ("ESOL/A", "random", "tpe", 2, 0.9315, 0.9065),
        ),
        ("nca_best_by_seed.csv", {"metric": "f1_test", "arena": "model_type"}, ("cnn", "de", "ga", 2, 0.6475, 0.643)),
        ("optimizer_ranks.json", {"better": "lower"}, ("rankingByAvgRank", "adalite", "soap", 1, 17.7, 25.7)),
        ("pypesto_best_fx.csv", {"better": "lower"}, ("Armistead", "SLSQP", "COBYLA", 2, -301.916185, -301.87982)),
        (
            "timm_imagenet.csv",
            {"metric": "top1", "optimizer": "model"},
            (
                "top1", "eva02_large_patch14_448.mim_m38m_ft_in22k_in1k", "convnextv2_huge.fcmae_ft_in22k_in1k_512",
                1, 90.04, 88.85,
            ),
        ),
    ],
)  # fmt: skip
def test_published_tables(name, options, expected):
    columns = {key: options[key] for key in options if key in ("arena", "optimizer", "seed")}
    others = {key: options[key] for key in options if key not in columns}
    c = fb.verdicts(TABLES / name, columns=columns, **others)[0]
    assert (c.arena, c.optimizer, c.baseline) == expected[:3]
    assert (c.n_optimizer, c.mean_optimizer, c.mean_baseline) == pytest.approx(expected[3:])


def test_published_tables_that_may_mean_two_things_or_lack_a_column():
    for name, words in {
        "algoperf_measurements.csv": "which column is the optimizer",
        "batch_sweep.csv": "which column is the optimizer",
        "gate_networks.md": "runs of one optimizer differ in point",
        "heavyball.md": "in lines 7 and 14; give a file with one",
        "molprop_runs.csv": "which metric is judged",
    }.items():
        with pytest.raises(UsageError, match=words):
            fb.verdicts(TABLES / name)
    skipped = fb.verdicts(TABLES / "automlbenchmark.csv", metric="auc").notes
    assert "1 arena without a value of auc skipped: mfeat-factors" in skipped


RUNS = {"mine": ("1.512", "1.498", "1.52"), "adamw": ("1.61", "1.653", "1.6"), "lion": ("1.5", "1.6", "1.55")}
MAKERS = {
    "own": lambda rows: [("Optimizer", "Seed", "final_loss"), *rows],
    "W&B": lambda rows: [
        ("Name", "State", "Runtime", "optimizer", "seed", "val/loss"),
        *((f"{o}-{s}", "finished", "90", o, s, x) for o, s, x in rows),
    ],
    "MLflow": lambda rows: [
        ("run_id", "status", "metrics.val_loss", "params.lr", "params.optimizer", "params.seed"),
        *((f"{i:x}f", "FINISHED", x, "0.1", o, s) for i, (o, s, x) in enumerate(rows)),
    ],
    "names of runs": lambda rows: [("run", "test loss"), *((f"{o}_seed{s}", x) for o, s, x in rows)],
    "a column for each": lambda rows: [
        ("seed", *dict.fromkeys(o for o, _, _ in rows)),
        *((s, *(x for _, t, x in rows if t == s)) for s in dict.fromkeys(s for _, s, _ in rows)),
    ],
}
ODDITIES = {
    "mark": lambda rows: ("\ufeff" + as_csv(rows), "", 1),
    "semicolons": lambda rows: (as_csv([[c.replace("1.", "1,") for c in row] for row in rows], ";"), "", 1),
    "percent": lambda rows: (as_csv([[f"{c} %" if c[:2] == "1." else c for c in row] for row in rows], "\t"), "", 1),
    "thousands": lambda rows: (
        as_csv([[f"1,{c[2:]}{'0' * (5 - len(c))}.5" if c[:2] == "1." else c for c in row] for row in rows]),
        "",
        1000,
    ),
    "empty rows": lambda rows: (as_csv([*rows, [""] * len(rows[0]), [""] * len(rows[0])]), "", 1),
    "two numbers": lambda rows: (
        as_csv([[c.replace("1.", "1,").ljust(5, "0") if c[:2] == "1." else c for c in row] for row in rows]),
        "can be 1512 or 1.512",
        1,
    ),
    "underscores": lambda rows: (
        as_csv([[c.replace("1.498", "1_498") for c in row] for row in rows]),
        "1_498|--columns",
        1,
    ),
    "one name": lambda rows: (as_csv([[*row, row[-1]] for row in rows]), "has two columns", 1),
}


def as_csv(rows, delimiter=","):
    csv.writer(text := io.StringIO(), delimiter=delimiter).writerows(rows)
    return text.getvalue()


@pytest.mark.parametrize("oddity", ODDITIES)
@pytest.mark.parametrize("maker", MAKERS)
def test_exports_of_five_makers_with_eight_oddities(maker, oddity):
    text, refusal, factor = ODDITIES[oddity](
        MAKERS[maker]([(o, str(s), x) for o, of in RUNS.items() for s, x in enumerate(of)])
    )
    if refusal:
        with pytest.raises(UsageError, match=refusal):
            fb.verdicts(io.StringIO(text), better="lower")
        return
    judged = fb.verdicts(io.StringIO(text), better="lower")
    values = {o: [factor * float(x) + (factor > 1) / 2 for x in of] for o, of in RUNS.items()}
    assert [c.baseline for c in judged] == ["adamw", "lion"]
    for c in judged:
        test = stats.ttest_rel(values[c.baseline], values[c.optimizer])
        assert (c.optimizer, c.n_optimizer, c.n_baseline, c.test) == ("mine", 3, 3, "paired")
        assert (c.gain, c.p) == pytest.approx((test.statistic * test._standard_error, test.pvalue))


def test_rows_in_memory_and_standard_input(by_seed, pandas, monkeypatch, command):
    rows = list(csv.DictReader(by_seed.read_text(encoding="utf-8-sig").splitlines()))
    expected = fb.verdicts(by_seed).to_dicts()
    lists = {name: [row[name] for row in rows] for name in rows[0]}
    same = [rows, [[*rows[0]], *(row.values() for row in rows)], lists, pandas.DataFrame(rows), by_seed.open("rb")]
    same += [io.StringIO(json.dumps(rows)), io.StringIO("\n".join(map(json.dumps, rows))), str(by_seed)]
    assert all(fb.verdicts(source).to_dicts() == expected for source in same)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(by_seed.open("rb")))
    assert json.loads(command("verdicts", "-", "--json"))["comparisons"] == json.loads(json.dumps(expected))


def test_layouts_of_pandas_and_of_people_are_the_rows_that_they_stand_for(pandas):
    loss = {"adamw": (3.1, 3.35, 3.2), "muon": (3.0, 3.1, 3.05)}
    rows = [{"optimizer": o, "seed": i, "val_loss": x, "lr": 0.1} for o in loss for i, x in enumerate(loss[o])]
    frame = pandas.DataFrame(rows)
    by_seed = frame.pivot(index="seed", columns="optimizer", values=["val_loss", "lr"])
    text = frame.to_csv(index=False)
    lines = [f"{o},{','.join(map(str, x))},{sum(x) / 3}" for o, x in loss.items()]
    layouts = [
        *(frame.to_json(orient=orient) for orient in ("columns", "index", "split", "table", "records")),
        json.dumps({"date": "2026", "results": rows}),
        json.dumps({o: {str(i): {"val_loss": x} for i, x in enumerate(loss[o])} for o in loss}),
        by_seed.to_csv(),
        f"# by my script\n{text}",
        text.replace(",", "  "),
        "\n".join(["Optimizer,Run 0,Run 1,Run 2,Mean", *lines]),
    ]
    (expected,) = fb.verdicts(rows, metric="val_loss")
    assert expected.gain == pytest.approx(-1 / 6)
    for layout in layouts:
        options = {"better": "lower"} if "Run 0" in layout else {"metric": "val_loss"}
        (found,) = fb.verdicts(io.StringIO(layout), **options)
        assert (found.gain, found.p, found.test) == pytest.approx((expected.gain, expected.p, "paired")), layout
    names = f"# by my script\n#{by_seed['val_loss'].to_csv()}"  # as numpy.savetxt writes them
    (found,), notes = (judged := fb.verdicts(io.StringIO(names), better="lower")), judged.notes
    assert (found.optimizer, found.gain) == ("adamw", expected.gain)
    assert "1 line of comments skipped" in notes
    others = json.dumps({"date": "2026", "seeds": [3], "results": rows})
    (note,) = fb.verdicts(io.StringIO(others), metric="val_loss").notes[:1]
    assert note == "keys that hold no rows left out: date, seeds"
    missing = '{"optimizer": {"0": "a", "1": "b", "2": "b"}, "loss": {"0": 1, "1": 2}}'
    assert fb.verdicts(io.StringIO(missing))[0].note == "b without a value 1/2"  # row 2 is not lost
    by_name = json.dumps({o: {"val_loss": x, "lr": [0.1] * 3} for o, x in loss.items()})
    assert fb.verdicts(io.StringIO(by_name), metric="val_loss")[0].test == "welch"
    emphasized = "Method,n,Loss\nA,5,$3.31 \\pm 0.02$\nB,5,$\\mathbf{3.27} \\pm 0.01$"
    assert fb.verdicts(io.StringIO(emphasized))[0].gain == pytest.approx(-0.04)


@pytest.mark.parametrize("keys", [["optimizer"], ["task", "optimizer"]])
def test_levels_of_names_as_pandas_writes_them(keys, pandas):
    rows = [("a", "adamw", 3.1, 50), ("a", "adamw", 3.3, 52), ("a", "muon", 3.0, 54), ("a", "muon", 3.1, 55)]
    frame = pandas.DataFrame(rows, columns=["task", "optimizer", "val_loss", "top1"])
    means = frame.groupby(keys)[["val_loss", "top1"]].agg(["mean", "std", "count"])
    expected = fb.verdicts(means, metric="val_loss").to_dicts()
    assert expected[0]["mean_optimizer"] == pytest.approx(3.2)
    assert fb.verdicts(io.StringIO(means.to_csv()), metric="val_loss").to_dicts() == expected


def test_a_margin_and_a_number_to_compare_with(tmp_path, command):
    a, b = (3.278, 3.2784, 3.2788, 3.2781), (3.2781, 3.2783, 3.2785, 3.2784)
    rows = [(name, seed, x) for name, values in (("A", a), ("B", b)) for seed, x in enumerate(values)]
    table = write(tmp_path / "records.txt", "optimizer,seed,val_loss", *rows)
    (c,) = fb.verdicts(table, margin=0.01)
    low, high = (stats.ttest_rel(a, [x + s * 0.01 for x in b]).pvalue / 2 for s in (-1, 1))
    assert (c.verdict, c.p_equivalence) == ("equivalent", pytest.approx(max(low, high)))
    judged = fb.verdicts(table, against=3.28, alpha=0.01)
    tests = [stats.ttest_1samp(values, 3.28) for values in (a, b)]
    assert [(c.optimizer, c.baseline, c.verdict) for c in judged] == [("A", "3.28", "better"), ("B", "3.28", "better")]
    assert [c.p for c in judged] == pytest.approx([test.pvalue for test in tests])
    assert [c.gain for c in judged] == pytest.approx([3.28 - stats.tmean(x) for x in (a, b)])
    shown = command("verdicts", str(table), "--against", "3.28", "--optimizer", "A", "--alpha", "0.01")
    assert "A is better in 1 of 1 comparison at 0.01: t-test of the mean" in shown


@pytest.mark.parametrize("size", [1e300, 1e-300, 3e222, 1e308])
def test_values_at_the_ends_of_the_range_of_numbers(size):
    rows = [
        {"optimizer": name, "seed": s, "loss": x * size}
        for name in "ab"
        for s, x in enumerate((0.1, 0.3, 0.7, ord(name) / 100))
    ]
    for row in (*rows, {"optimizer": "a", "seed": 9, "loss": 1.0}, {"optimizer": "b", "seed": 9, "loss": 3.0}):
        row["arena"] = "one"
    (c,) = fb.verdicts(rows, margin=size)
    of = ([row["loss"] / size for row in rows if row["optimizer"] == x] for x in "ab")
    assert c.verdict == "diverged" if size == 1e308 else c.p == pytest.approx(stats.ttest_rel(*of).pvalue)


def test_mistakes_in_tables_and_options_are_named_with_their_line(tmp_path, check_errors):
    table = tmp_path / "t.csv"

    def judge(case):
        text, options = (*ast.literal_eval(f"({case},)"), {})[:2]
        table.write_text(text)
        fb.verdicts(table, **options)

    check_errors("tables.txt", judge, UsageError)
    with pytest.raises(UsageError, match=r"absent.csv cannot be read: .*; give a table in CSV or JSON"):
        fb.verdicts(tmp_path / "absent.csv")
