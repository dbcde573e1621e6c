"""Colors of arms and phases are told apart, also by people who do not see red or green."""

from itertools import combinations

import pytest
from color_vision import MATRICES, ciede2000, contrast, seen

from fairbench.report.figures.colors import COLORS


def test_differences_of_colors_are_those_of_the_literature():
    """Pairs of Sharma, Wu & Dalal 2005, table 1."""
    assert ciede2000((50, 2.6772, -79.7751), (50, 0, -82.7485)) == rounded(2.0425)
    assert ciede2000((50, -1.3802, -84.2814), (50, 0, -82.7485)) == rounded(1.0)
    assert ciede2000((50, 2.49, -0.001), (50, -2.49, 0.0011)) == rounded(7.2195)
    assert ciede2000((50, 2.5, 0), (50, 0, -2.5)) == rounded(4.3065)
    assert ciede2000((50, 2.5, 0), (73, 25, -18)) == rounded(27.1492)
    assert ciede2000((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387)) == rounded(1.2644)
    assert ciede2000((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514)) == rounded(0.9082)


def rounded(difference):
    """A difference as the table gives it, with four decimals."""
    return pytest.approx(difference, abs=6e-5)


def test_contrasts_are_those_of_the_w3c():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#ff0000", "#0000ff") == pytest.approx(2.149, abs=1e-3)  # by its worked formula


@pytest.mark.parametrize("is_dark", [False, True])
@pytest.mark.parametrize(("kind", "least_contrast"), [("arm-", 4.5), ("phase-", 3)])
def test_arms_and_phases_are_told_apart_by_everyone(kind, least_contrast, is_dark):
    theme = "dark" if is_dark else "light"
    paper = getattr(COLORS["paper"], theme)
    colors = [getattr(color, theme) for role, color in COLORS.items() if role.startswith(kind)]
    for color in colors:
        assert contrast(color, paper) >= least_contrast
    for vision in MATRICES:
        for one, other in combinations(colors, 2):
            assert ciede2000(seen(one, vision), seen(other, vision)) >= 12


def test_the_grid_and_the_margin_are_seen():
    for role in ("grid", "margin"):
        color = COLORS[role]
        assert contrast(color.light, COLORS["paper"].light) >= 1.5
        assert contrast(color.dark, COLORS["paper"].dark) >= 1.5


def test_no_arm_outshines_the_others_on_a_dark_page():
    lightness = [seen(color.dark, "normal")[0] for role, color in COLORS.items() if role.startswith("arm-")]
    assert max(lightness) - min(lightness) <= 21


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("vision", MATRICES)
def test_a_gain_is_told_from_a_loss_by_everyone_and_its_text_is_read(vision, theme):
    for level in (1, 2, 3):
        gain = getattr(COLORS[f"better-{level}"], theme)
        loss = getattr(COLORS[f"worse-{level}"], theme)
        assert ciede2000(seen(gain, vision), seen(loss, vision)) >= 8
        for color in (gain, loss):
            assert contrast(color, getattr(COLORS["ink"], theme)) >= 4.5
