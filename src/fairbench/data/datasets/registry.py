"""The datasets that suites can name, and the facts of each.

An embedded one is made by `fairbench.data.loading`. Each other one has a module with one function, which
`fairbench.data.preparation.prepare` calls:

    read(source, options) -> Images | Texts            the examples, the same from every source
"""

from fairbench.data.datasets.info import Dataset, Option
from fairbench.data.formats.source_files import SourceFile

VOCABULARY = Option(int, 257, range(257, 2**16 + 1))


def _stories(version: str, file: str, train: tuple[int, str], test: tuple[int, str]) -> tuple[SourceFile, SourceFile]:
    """The files of a version of TinyStories, by size and sha256; those of the authors are on the hub."""
    first, second = (
        SourceFile(f"{file}-{name}.txt", split=split, size=size, sha256=sha256, when={"version": version})
        for name, split, (size, sha256) in (("train", "train", train), ("valid", "test", test))
    )
    return first, second


STORIES = (
    *_stories(
        "V2",
        "TinyStoriesV2-GPT4",
        (2_227_753_162, "6418d412de72888f52b5142c761ac21a582f7d1166f0bfbdb5f03ccfdec90443"),
        (22_502_601, "6874bae9a4c1a4e7edcf0e53b86c17817e9cf881fc75ff2368da457b80c0585d"),
    ),
    *_stories(
        "V1",
        "TinyStories",
        (1_924_281_556, "c5cf5e22ff13614e830afbe61a99fbcbe8bcb7dd72252b989fa1117a368d401f"),
        (19_447_282, "94e431816c4cce81ff71e4408ff8d3bda9a42e8d2663986697c3954288cb38b4"),
    ),
)

DATASETS = {
    "digits": Dataset("scikit-learn's digits, embedded", "images", labelled=True),
    "stdlib": Dataset("the Python standard library's source, embedded", "text"),
    "tinystories": Dataset(
        title="TinyStories, short stories written by GPT-3.5 and GPT-4",
        kind="text",
        license="CDLA-Sharing-1.0",
        citation="Eldan and Li, TinyStories: How Small Can Language Models Be and Still Speak Coherent English?, 2023",
        page="https://huggingface.co/datasets/roneneldan/TinyStories",
        module="tinystories",
        archives=STORIES,
        repository="roneneldan/TinyStories",
        revision="f54c09fd23315a6f9c86f9dc80f725de7d8f9c64",
        hub_files=STORIES,
        options={"version": Option(str, "V2", ("V1", "V2")), "vocabulary": VOCABULARY},
    ),
    "cifar100": Dataset(
        title="CIFAR-100, 32 x 32 photographs of 100 classes",
        kind="images",
        labelled=True,
        license="none stated: cite it, do not redistribute it",
        citation="Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009",
        page="https://www.cs.toronto.edu/~kriz/cifar.html",
        module="cifar100",
        archives=(
            SourceFile(
                "cifar-100-python.tar.gz",
                size=169_001_437,
                sha256="85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
            ),
        ),
        repository="uoft-cs/cifar100",
        revision="aadb3af77e9048adbea6b47c21a81e47dd092ae5",
        hub_files=(
            SourceFile("cifar100/train-*.parquet", split="train"),
            SourceFile("cifar100/test-*.parquet", split="test"),
        ),
        fault="891 test images have near-duplicates in train (Barz and Denzler, Do We Train on Test Data? Purging "
        "CIFAR of Near-Duplicates, 2020)",
    ),
    "tiny-imagenet": Dataset(
        title="Tiny ImageNet, 64 x 64 photographs of 200 classes",
        kind="images",
        labelled=True,
        license="ImageNet's terms: non-commercial research and education",
        citation="Le and Yang, Tiny ImageNet Visual Recognition Challenge, 2015",
        page="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
        module="tiny_imagenet",
        archives=(
            SourceFile(
                "tiny-imagenet-200.zip",
                size=248_100_043,
                sha256="6198c8ae015e2b3e007c7841da39ec069199b9aa3bfa943a462022fe5e43c821",
            ),
        ),
        repository="zh-plus/tiny-imagenet",
        revision="5a77092c28e51558c5586e9c5eb71a7e17a5e43f",
        hub_files=(SourceFile("data/train-*.parquet", split="train"), SourceFile("data/valid-*.parquet", split="test")),
    ),
    "celeba": Dataset(
        title="CelebA, aligned faces",
        kind="images",
        license="non-commercial research only, no further copying",
        citation="Liu, Luo, Wang and Tang, Deep Learning Face Attributes in the Wild, 2015",
        page="https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html",
        module="celeba",
        archives=(
            SourceFile(
                "img_align_celeba.zip",
                size=1_443_490_838,
                sha256="46fb89443c578308acf364d7d379fe1b9efb793042c0af734b6112e4fd3a8c74",
            ),
            SourceFile(
                "list_eval_partition.txt",
                size=2_836_386,
                sha256="fc955bcb3ef8fbdf7d5640d9a8693a8431b5f2ee291a5c1449a1549e7e073fe7",
                also=("list_eval_partition.csv",),
                header="image_id,partition",
            ),
        ),
        repository="flwrlabs/celeba",
        revision="2d738f56e0e7f925ea36ae7c808ea925264aacec",
        hub_files=(
            SourceFile("img_align+identity+attr/train-*.parquet", split="train"),
            SourceFile("img_align+identity+attr/valid-*.parquet", split="val"),
            SourceFile("img_align+identity+attr/test-*.parquet", split="test"),
        ),
        options={"size": Option(int, 64, range(8, 179)), "crop": Option(int, 140, range(8, 179))},
    ),
    "text": Dataset(
        title="a user's text: a file, or a folder of .txt files",
        kind="text",
        license="the user's",
        module="user_text",
        options={"path": Option(str), "vocabulary": VOCABULARY},
    ),
    "images": Dataset(
        title="a user's images: a folder of images, or of one folder per class",
        kind="images",
        labelled=True,
        license="the user's",
        module="user_images",
        options={"path": Option(str), "size": Option(int, 64, range(8, 1025))},
    ),
}
"""Embedded ones first, then published ones, then those of a user."""
