"""Names in any script: another font of the machine has their characters, or code points stand for them."""

import warnings

import pytest
from fabricated import Records, analysed, study
from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont
from matplotlib import font_manager
from matplotlib.font_manager import findfont, fontManager

from fairbench.report.figures import glyphs
from fairbench.report.study import draw_figures

CJK = "中文"
CACHED = (glyphs.characters_of, glyphs.families, glyphs.drawable, glyphs.tell_what_is_replaced)


@pytest.fixture
def no_fonts(monkeypatch):
    """No font but the usual one, whatever this machine has."""
    monkeypatch.setattr(glyphs, "OTHERS", ("Only Here",))
    for function in CACHED:
        function.cache_clear()
    yield
    for function in CACHED:
        function.cache_clear()


@pytest.fixture
def a_font(no_fonts, tmp_path, monkeypatch):
    """A font with two letters, which stand at the code points of two Chinese characters."""
    font = TTFont(findfont("DejaVu Sans"))
    subsetter = Subsetter(Options())
    subsetter.populate(text="AB")
    subsetter.subset(font)
    for table in font["cmap"].tables:
        table.cmap = {ord(CJK[0]): "A", ord(CJK[1]): "B"}
    for record in font["name"].names:
        if record.nameID in (1, 4, 16):
            record.string = "Only Here"
    font.save(tmp_path / "font.ttf")
    monkeypatch.setattr(fontManager, "ttflist", [*fontManager.ttflist])
    fontManager.addfont(tmp_path / "font.ttf")
    yield
    font_manager.fontManager._findfont_cached.cache_clear()


def test_a_font_that_has_the_characters_is_used(a_font):
    assert glyphs.drawable(f"{CJK} a") == f"{CJK} a"
    assert glyphs.families(f"{CJK} a") == ("DejaVu Sans", "Only Here", "sans-serif")
    assert glyphs.families("plain") == ("DejaVu Sans", "sans-serif")


def test_without_a_font_code_points_stand_for_the_characters(no_fonts):
    assert glyphs.drawable(f"a_{CJK}") == "a_U+4E2DU+6587"
    assert glyphs.drawable("plain\n") == "plain\n"


def test_a_study_with_such_names_says_so_once_and_warns_of_nothing(no_fonts, capsys):
    the_study = study(("gpt",), ("AdamW", CJK, "PsiLogic"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            figures = draw_figures(analysed(the_study, Records(the_study)), name="leaderboard")
            figures[0].save("png")
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert told.startswith(f"figures: no font has all characters of {CJK};")
    assert any(CJK in point.text for point in figures[0].parts[0].points)  # the page says the name
