"""Samples whose tests others have published, and any two arms of a study."""

from hypothesis import strategies

# R: data(sleep), which Student 1908 printed; the same ten patients twice
SLEEP_1 = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
SLEEP_2 = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]

SCORES = strategies.integers(1, 999).map(lambda x: x / 1000)
ARMS = strategies.integers(2, 5).flatmap(
    lambda n: strategies.tuples(*[strategies.lists(SCORES, min_size=n, max_size=n)] * 2)
)
"""Two arms with as many seeds, of scores with three digits, so that ties and constant arms happen."""
AFFINE = strategies.tuples(
    strategies.sampled_from([-100.0, -0.3, 0.001, 7.0]), strategies.sampled_from([-5.0, 0.0, 0.7])
)
"""Factor and shift of another unit of the metric."""
