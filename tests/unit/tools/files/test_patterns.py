import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.errors import Invalid
from holdfast.domain.linear_regex import LinearRegex
from holdfast.tools.files.patterns import LineSearch, compile_glob


@pytest.mark.parametrize(
    ("pattern", "fits", "fails"),
    [
        ("*.py", ["a.py", ".py"], ["a/b.py", "a.pyc", "apy"]),
        ("**/*.py", ["a.py", "a/b.py", "a/b/c.py"], ["a.md", "a/b.md"]),
        ("src/**", ["src/a", "src/a/b"], ["src", "lib/a"]),
        ("src/**/a", ["src/a", "src/b/a", "src/b/c/a"], ["a", "src/ba"]),
        ("a**b", ["ab", "axb", "ax/b"], ["a"]),
        ("?.py", ["a.py", "ä.py"], ["ab.py", "/.py"]),
        ("[ab].py", ["a.py", "b.py"], ["c.py"]),
        ("[!ab].py", ["c.py"], ["a.py", "/.py"]),
        ("[a-c].py", ["b.py"], ["d.py"]),
        ("[]].py", ["].py"], ["[.py"]),
        ("[.py", ["[.py"], ["a.py"]),
        ("*.{js,ts}", ["a.js", "a.ts"], ["a.jsx", "a.{js,ts}"]),
        ("{a,b/**/c}", ["a", "b/c", "b/x/c"], ["c"]),
        ("{a,{b,c}}.py", ["a.py", "b.py", "c.py"], ["d.py"]),
        ("{**/a,b}", ["a", "x/a", "b"], ["x/b"]),
        (r"\*.py", ["*.py"], ["a.py"]),
        (r"\{a,b\}", ["{a,b}"], ["a"]),
        ("a,b}", ["a,b}"], ["a"]),
        ("a+(b).$", ["a+(b).$"], ["aa(b).$"]),
        ("\\", ["\\"], [""]),
        ("日本*", ["日本語"], ["日"]),
    ],
)
def test_a_glob_matches_as_documented(pattern: str, fits: list[str], fails: list[str]) -> None:
    compiled = compile_glob(pattern)
    assert [path for path in fits if compiled.fullmatch(path) is None] == []
    assert [path for path in fails if compiled.fullmatch(path) is not None] == []


@given(st.text(st.sampled_from("ab/*?[]{},!^-\\."), max_size=12))
def test_any_text_is_a_glob_or_invalid(pattern: str) -> None:
    try:
        compile_glob(pattern).fullmatch("a/b")
    except Invalid as error:
        assert error.details["field"] == "pattern"


@given(st.text(st.sampled_from("ab/.-+()$^|"), max_size=12))
def test_a_literal_glob_matches_only_itself(path: str) -> None:
    assert compile_glob(path).fullmatch(path) is not None
    assert compile_glob(path).fullmatch(f"{path}x") is None


@pytest.mark.parametrize("pattern", ["{a", "[z-a]"])
def test_an_invalid_glob_is_refused(pattern: str) -> None:
    with pytest.raises(Invalid):
        compile_glob(pattern)


@pytest.mark.parametrize("pattern", ["(", "a{1001}", r"(?=a)", r"(a)\1", "*", "[", "a{1000}{1000}"])
def test_an_invalid_regular_expression_is_refused_with_the_reason(pattern: str) -> None:
    with pytest.raises(Invalid, match="is not a valid regular expression") as caught:
        LinearRegex(pattern)
    assert "RE2" in caught.value.message


def test_an_exponential_expression_runs_in_linear_time() -> None:
    assert LinearRegex("(a+)+$|(a|a)*b|(.*.*.*)*x").search("a" * 50_000 + "c") is None


@given(
    st.sampled_from(
        ["a", "^a", "a$", "^$", "a.b", "[^a]", r"\s", r"\bb", r"\Aa", r"a\z", "(?i)A", "a|^b$", "b*", "(a|b)+c"]
    ),
    st.text(st.sampled_from("aAbc \n"), max_size=30),
    st.booleans(),
)
def test_the_search_in_the_whole_text_misses_no_line(pattern: str, text: str, ignore_case: bool) -> None:
    search = LineSearch(pattern, ignore_case=ignore_case, context=0)
    line = LinearRegex(pattern, ignore_case=ignore_case)
    lines = text.split("\n")
    expected = [index for index, each in enumerate(lines) if line.search(each) is not None]
    if not lines[-1] and len(lines) - 1 in expected:
        expected.pop()  # what follows the last line feed is no line if it is nothing
    assert search.matches(text, limit=1_000) == expected
