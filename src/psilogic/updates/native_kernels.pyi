def row_sums(
    itemsize: int, threads: int, n: int, addresses: int, numels: int, units: int, squares: int, sums: int, /
) -> None: ...
def update_(
    itemsize: int,
    threads: int,
    n: int,
    params: int,
    grads: int,
    exp_avgs: int,
    exp_avg_sqs: int,
    numels: int,
    units: int,
    t: int,
    decay: int,
    quantum_rate: int,
    mean: int,
    scale: int,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    /,
) -> None: ...
