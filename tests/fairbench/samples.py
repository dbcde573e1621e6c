"""Samples whose tests others have published, and any two arms of a study."""

from hypothesis import strategies

# R: data(sleep), which Student 1908 printed; the same ten patients twice
SLEEP_1 = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
SLEEP_2 = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]


SCORES = strategies.integers(1, 999).map(lambda thousandths: thousandths / 1000)
"""Scores with three digits."""


def arm(seeds):
    """The scores of an arm with as many seeds."""
    return strategies.lists(SCORES, min_size=seeds, max_size=seeds)


def two_arms(seeds):
    """The scores of two arms with as many seeds."""
    return strategies.tuples(arm(seeds), arm(seeds))


ARMS = strategies.integers(2, 5).flatmap(two_arms)
"""Two arms with as many seeds, whose scores have so few digits that ties and constant arms happen."""
FACTOR = strategies.sampled_from([-100.0, -0.3, 0.001, 7.0])
SHIFT = strategies.sampled_from([-5.0, 0.0, 0.7])
AFFINE = strategies.tuples(FACTOR, SHIFT)
"""Factor and shift of another unit of the metric."""
