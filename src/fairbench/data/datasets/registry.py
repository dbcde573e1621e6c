"""The datasets that can be prepared, and the facts of each.

Each has a module with one function, which `fairbench.data.preparation.prepare` calls:

    read(source, options) -> Images | Texts            the examples, the same from every source
"""

from fairbench.data.datasets.info import Archive, Dataset, HubFiles, Option

V1, V2 = {"version": "V1"}, {"version": "V2"}
VOCABULARY = Option(int, 257, range(257, 2**16 + 1))

DATASETS = {
    "tinystories": Dataset(
        title="TinyStories, short stories written by GPT-3.5 and GPT-4",
        license="CDLA-Sharing-1.0",
        citation="Eldan and Li, TinyStories: How Small Can Language Models Be and Still Speak Coherent English?, 2023",
        page="https://huggingface.co/datasets/roneneldan/TinyStories",
        module="tinystories",
        archives=(
            Archive(
                "TinyStoriesV2-GPT4-train.txt",
                2_227_753_162,
                {"sha256": "6418d412de72888f52b5142c761ac21a582f7d1166f0bfbdb5f03ccfdec90443"},
                split="train",
                when=V2,
            ),
            Archive(
                "TinyStoriesV2-GPT4-valid.txt",
                22_502_601,
                {"sha256": "6874bae9a4c1a4e7edcf0e53b86c17817e9cf881fc75ff2368da457b80c0585d"},
                split="test",
                when=V2,
            ),
            Archive(
                "TinyStories-train.txt",
                1_924_281_556,
                {"sha256": "c5cf5e22ff13614e830afbe61a99fbcbe8bcb7dd72252b989fa1117a368d401f"},
                split="train",
                when=V1,
            ),
            Archive(
                "TinyStories-valid.txt",
                19_447_282,
                {"sha256": "94e431816c4cce81ff71e4408ff8d3bda9a42e8d2663986697c3954288cb38b4"},
                split="test",
                when=V1,
            ),
        ),
        repository="roneneldan/TinyStories",
        revision="f54c09fd23315a6f9c86f9dc80f725de7d8f9c64",
        hub_files=(
            HubFiles("train", "TinyStoriesV2-GPT4-train.txt", when=V2),
            HubFiles("test", "TinyStoriesV2-GPT4-valid.txt", when=V2),
            HubFiles("train", "TinyStories-train.txt", when=V1),
            HubFiles("test", "TinyStories-valid.txt", when=V1),
        ),
        options={"version": Option(str, "V2", ("V1", "V2")), "vocabulary": VOCABULARY},
    ),
    "cifar100": Dataset(
        title="CIFAR-100, 32 x 32 photographs of 100 classes",
        license="none stated: cite it, do not redistribute it",
        citation="Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009",
        page="https://www.cs.toronto.edu/~kriz/cifar.html",
        module="cifar100",
        archives=(
            Archive(
                "cifar-100-python.tar.gz",
                169_001_437,
                {"sha256": "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7"},
            ),
        ),
        repository="uoft-cs/cifar100",
        revision="aadb3af77e9048adbea6b47c21a81e47dd092ae5",
        hub_files=(HubFiles("train", "cifar100/train-*.parquet"), HubFiles("test", "cifar100/test-*.parquet")),
        fault="891 test images have near-duplicates in train (Barz and Denzler, Do We Train on Test Data? Purging "
        "CIFAR of Near-Duplicates, 2020)",
    ),
    "tiny-imagenet": Dataset(
        title="Tiny ImageNet, 64 x 64 photographs of 200 classes",
        license="ImageNet's terms: non-commercial research and education",
        citation="Le and Yang, Tiny ImageNet Visual Recognition Challenge, 2015",
        page="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
        module="tiny_imagenet",
        archives=(
            Archive(
                "tiny-imagenet-200.zip",
                248_100_043,
                {"sha256": "6198c8ae015e2b3e007c7841da39ec069199b9aa3bfa943a462022fe5e43c821"},
            ),
        ),
        repository="zh-plus/tiny-imagenet",
        revision="5a77092c28e51558c5586e9c5eb71a7e17a5e43f",
        hub_files=(HubFiles("train", "data/train-*.parquet"), HubFiles("test", "data/valid-*.parquet")),
    ),
    "celeba": Dataset(
        title="CelebA, aligned faces",
        license="non-commercial research only, no further copying",
        citation="Liu, Luo, Wang and Tang, Deep Learning Face Attributes in the Wild, 2015",
        page="https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html",
        module="celeba",
        archives=(
            Archive(
                "img_align_celeba.zip",
                1_443_490_838,
                {"sha256": "46fb89443c578308acf364d7d379fe1b9efb793042c0af734b6112e4fd3a8c74"},
            ),
            Archive(
                "list_eval_partition.txt",
                2_836_386,
                {"sha256": "fc955bcb3ef8fbdf7d5640d9a8693a8431b5f2ee291a5c1449a1549e7e073fe7"},
                also=("list_eval_partition.csv",),
                header="image_id,partition",
            ),
        ),
        repository="flwrlabs/celeba",
        revision="2d738f56e0e7f925ea36ae7c808ea925264aacec",
        hub_files=(
            HubFiles("train", "img_align+identity+attr/train-*.parquet"),
            HubFiles("val", "img_align+identity+attr/valid-*.parquet"),
            HubFiles("test", "img_align+identity+attr/test-*.parquet"),
        ),
        options={"size": Option(int, 64, range(8, 179)), "crop": Option(int, 140, range(8, 179))},
    ),
    "text": Dataset(
        title="a user's text: a file, or a folder of .txt files",
        license="the user's",
        module="user_text",
        options={"path": Option(str), "vocabulary": VOCABULARY},
    ),
    "images": Dataset(
        title="a user's images: a folder of images, or of one folder per class",
        license="the user's",
        module="user_images",
        options={"path": Option(str), "size": Option(int, 64, range(8, 1025))},
    ),
}
