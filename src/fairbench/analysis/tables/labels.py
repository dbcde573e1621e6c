"""What a text without a heading is: a seed, a metric, a statistic, an optimizer, a data set or a summary."""

import re
from collections.abc import Iterable

from fairbench.analysis.tables.metric_names import is_metric, statistic_of
from fairbench.analysis.tables.seed_names import are_seeds

OPTIMIZERS = re.compile(
    r"(?:ada(?!pt)|n?adam|radam|[np]?sgd|lion|normuon|muon|rmsprop|lamb(?!da)|lars|shampoo|soap|sophia|nesterov|l?bfgs"
    r"|signsgd|signum|kfac|ranger|prodigy|dadapt|tiger|apollo|galore|lookahead|heavyball|yogi|scion|kron|psilogic"
    r"|proposed|baseline).*"
    r"|(?:came|mars|mine|ours?|my(?:rule|opt|optimizer|method|algorithm)?)\d*"
)
"""Words with which the names of well-known optimizers begin, and those of an author for the own one."""
DATA_SETS = re.compile(
    r"(?:mnist|fmnist|kmnist|emnist|fashion|cifar|svhn|stl10|imagenet|tinyimagenet|coco|voc|cityscapes|celeba|lsun|wiki"
    r"|ptb|penn|enwik|text8|c4|openwebtext|fineweb|pile|imdb|yelp|agnews|amazon|squad|glue|mnli|qnli|cola|sst|mrpc|qqp"
    r"|rte|stsb|wnli|boolq|hellaswag|arc|mmlu|gsm8k|piqa|winogrande|librispeech|timit|speech|fastmri|ogb|criteo|wmt"
    r"|iwslt|multi30k|movielens|adult|iris|wine|boston|diabetes|covtype|higgs|protein|cora|citeseer|pubmed|qm9|zinc"
    r"|cartpole|hopper|halfcheetah|walker|ant|humanoid|pendulum|acrobot|lunarlander|breakout|pong|atari|mujoco"
    r"|rosenbrock|rastrigin|ackley|sphere|resnet|vgg|vit|densenet|mobilenet|efficientnet|bert|roberta|gpt|llama|t5|lstm"
    r"|transformer|mlp|cnn|gnn|unet|ddpm).*"
    r"|(?:task|dataset|data|problem|env|workload|domain|subject|arena)\d*"
)
"""Words with which the names of well-known data sets, models and tasks begin."""
SUMMARY_WORD = (
    "mean|means|avg|average|averages|averaged|aver|overall|total|totals|sum|std|sd|stdev|stddev|deviation|se|sem"
    "|stderr|err|error|var|variance|median|min|minimum|max|maximum|count|best|worst|range|iqr|ci|quantile|quartile"
    "|geomean|gmean|hmean|aggregate|aggregated|summary|wins|win|losses|ties|rank|ranks|ranking|p|pvalue|pval"
    "|significance|diff|difference|delta|gain|improvement"
    "|mittelwert|durchschnitt|mittel|gesamt|summe|standardabweichung|streuung|moyenne|moy|ecart|total|media|promedio"
    "|desviacion|médiane|mediana|среднее|平均|标准差"
)
SUMMARY = re.compile(rf"(?:{SUMMARY_WORD}|[øµμσδ∅]|\d+(?:\.\d+)?%|q\d+|p\d\d)")
"""A word of a row or a column that summarizes others."""
WINS = re.compile(r"\W*w\w*\s*/\s*(?:[td]\w*\s*/\s*)?l\w*\W*", re.IGNORECASE)
"""The name of a row that counts wins, ties and losses, such as "W/T/L"."""
FILLER = re.compile(
    r"(?:of|over|the|all|a|for|per|across|and|in|type|value|standard|geometric|harmonic|arithmetic|weighted|macro|micro"
    r"|test|val|dev|seeds?|runs?|tasks?|data|datasets?|sets?|trials?|reps?|folds?|score|scores|acc|accuracy|n|\d+)"
)
"""A word that may stand with a word of a summary, as in "average over 5 seeds"."""
WORD = re.compile(r"[^\W_]+(?:\.\d+)?%?|[∅]")
"""Letters and digits, which decimals and a percent sign may follow, such as "12.5%"; or the sign of a mean."""


def words_of(text: str) -> list[str]:
    """The words of a text in small letters, without its punctuation."""
    return WORD.findall(text.casefold())


def is_summary(text: str) -> bool:
    """Whether a text says that a row or a column summarizes others, such as "Avg." and "Mean of 5 runs"."""
    if WINS.fullmatch(text):
        return True
    words = words_of(text)
    summaries = [word for word in words if SUMMARY.fullmatch(word)]
    if not summaries:
        return False
    return all(SUMMARY.fullmatch(word) or FILLER.fullmatch(word) for word in words)


def are_sizes(texts: Iterable[str]) -> bool:
    """Whether whole numbers are sizes or counts of steps rather than seeds: powers of two, or multiples of ten."""
    numbers = {int(text) for text in texts if text.isdigit()}
    if len(numbers) < 2 or min(numbers) < 8:
        return False
    are_powers_of_two = all(number.bit_count() == 1 for number in numbers)
    are_multiples_of_ten = all(number % 10 == 0 for number in numbers)
    return are_powers_of_two or are_multiples_of_ten


def is_optimizer(text: str) -> bool:
    """Whether a text has the name of a well-known optimizer."""
    return any(OPTIMIZERS.fullmatch(word) for word in words_of(text))


def is_data_set(text: str) -> bool:
    """Whether a text begins with the name of a well-known data set, model or task."""
    words = words_of(text)
    return bool(words) and bool(DATA_SETS.fullmatch(words[0]))


def role_of(texts: Iterable[str]) -> str:
    """The role of a column without a name by its texts; empty if they do not tell it.

    Words for a summary and empty texts do not count. The texts must all be seeds, metrics or statistics; of optimizers
    and of data sets it is enough that half are well known.
    """
    filled = list(dict.fromkeys(text for text in texts if text))
    if len(filled) > 1 and all(statistic_of(text) or is_summary(text) for text in filled):
        return "statistic"
    labels = [text for text in filled if not is_summary(text)]
    if not labels:
        return ""
    if are_seeds(labels):
        return "seed"
    if all(is_metric(label) for label in labels):
        return "metric"
    optimizers = sum(is_optimizer(label) for label in labels)
    data_sets = sum(is_data_set(label) for label in labels)
    if optimizers > data_sets and 2 * optimizers >= len(labels):
        return "optimizer"
    if data_sets > optimizers and 2 * data_sets >= len(labels):
        return "arena"
    return ""
