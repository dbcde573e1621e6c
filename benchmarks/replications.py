"""The verdicts of several runs of one suite, side by side: with other instruction sets, and with other seeds.

.venv/bin/fairbench run mini -o results/avx512
.venv/bin/fairbench run mini --seeds 11,12,13,14,15,16,17,18 --set sweep.seeds=[10] -o results/seeds_b
export ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 ONEDNN_MAX_CPU_ISA=AVX2
.venv/bin/fairbench run mini -o results/avx2
.venv/bin/python benchmarks/replications.py AVX-512=results/avx512 AVX2=results/avx2 "seeds 11 to 18"=results/seeds_b \
    [--csv FILE]

For torch's kernels, delete ours in another clone before its study: `find src -name '*.so' -delete`. Each study has a
report. `same_weights` is the share of the baseline's final trials whose weights are, bit for bit, those of the first
study; it is empty where no seed is the same.
"""

from pathlib import Path

from csv_files import csv_parser, read_csv, write_csv

COLUMNS = ("arena", "metric", "baseline", "verdict", "gain", "ci_low", "ci_high", "margin", "p_holm")


def weights(study: Path) -> dict[tuple[str, str, str], str]:
    """The hash of the final weights of each arm and seed."""
    rows = read_csv(study / "summary.csv")
    return {(row["arena"], row["optimizer"], row["seed"]): row["hash_final_weights"] for row in rows}


def main() -> None:
    """Print the table, and write it as CSV if requested."""
    parser = csv_parser(__doc__)
    parser.add_argument("studies", nargs="+", metavar="NAME=DIR")
    options = parser.parse_args()
    studies = {name: Path(folder) for name, folder in (x.split("=", 1) for x in options.studies)}
    first = weights(next(iter(studies.values())))
    table = []
    for name, folder in studies.items():
        found = weights(folder)
        for row in read_csv(folder / "significance.csv"):
            arm = [key for key in first if key[:2] == (row["arena"], row["baseline"]) and key in found]
            same = sum(found[key] == first[key] for key in arm) / len(arm) if arm else ""
            table.append({"run": name, **{x: row[x] for x in COLUMNS}, "same_weights": same})
            print(*table[-1].values(), sep="\t")
    if options.csv:
        write_csv(table, options.csv)


if __name__ == "__main__":
    main()
