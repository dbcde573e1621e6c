"""The verdicts of several runs of one suite, side by side: with other instruction sets, and with other seeds.

.venv/bin/fairbench run mini -o results/avx512
.venv/bin/fairbench run mini --seeds 11,12,13,14,15,16,17,18 --set sweep.seeds=[10] -o results/seeds_b
export ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 ONEDNN_MAX_CPU_ISA=AVX2
.venv/bin/fairbench run mini -o results/avx2
.venv/bin/python benchmarks/replications.py AVX-512=results/avx512 AVX2=results/avx2 "seeds 11 to 18"=results/seeds_b \
    [--csv FILE]

For torch's kernels without vector instructions, delete ours in another clone before its study, `find src -name '*.so'
-delete`, and set ATEN_CPU_CAPABILITY=default MKL_ENABLE_INSTRUCTIONS=SSE4_2 ONEDNN_MAX_CPU_ISA=SSE41. Each study has a
report. `same_weights` is the share of the baseline's final trials whose weights are, bit for bit, those of the first
study; it is empty where no seed is the same.
"""

from pathlib import Path
from typing import Any

from csv_files import csv_parser, read_csv, write_csv

COLUMNS = ("arena", "metric", "baseline", "verdict", "gain", "ci_low", "ci_high", "margin", "p_holm")


Weights = dict[tuple[str, str, str], str]
"""The hash of the final weights for each arena, optimizer and seed."""


def weights(study: Path) -> Weights:
    """The final weights of a study."""
    hashes = {}
    for row in read_csv(study / "summary.csv"):
        trial = (row["arena"], row["optimizer"], row["seed"])
        hashes[trial] = row["hash_final_weights"]
    return hashes


def same_weights(first: Weights, other: Weights, arena: str, optimizer: str) -> float | str:
    """The share of an arm's seeds in both studies that ended with the same weights; empty if they share no seed."""
    common = 0
    same = 0
    for trial, digest in first.items():
        if trial[:2] == (arena, optimizer) and trial in other:
            common += 1
            same += other[trial] == digest
    if not common:
        return ""
    return same / common


def main() -> None:
    """Print the table, and write it as CSV if requested."""
    parser = csv_parser(__doc__)
    parser.add_argument("studies", nargs="+", metavar="NAME=DIR")
    options = parser.parse_args()
    studies = {}
    for text in options.studies:
        name, folder = text.split("=", 1)
        studies[name] = Path(folder)
    first = weights(next(iter(studies.values())))
    table = []
    for name, folder in studies.items():
        found = weights(folder)
        for row in read_csv(folder / "significance.csv"):
            line: dict[str, Any] = {"run": name}
            line |= {column: row[column] for column in COLUMNS}
            line["same_weights"] = same_weights(first, found, row["arena"], row["baseline"])
            table.append(line)
            print(*line.values(), sep="\t")
    if options.csv:
        write_csv(table, options.csv)


if __name__ == "__main__":
    main()
