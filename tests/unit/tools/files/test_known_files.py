from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.content import Json
from holdfast.domain.working_path import WorkingPath
from holdfast.tools.files.write import FILES_VALUE, MAX_KNOWN_FILES, known_digest, remember_digest


def remember(value: Json, path: str, digest: str, folder: str = "files") -> Json:
    return remember_digest(folder, WorkingPath(path), digest)[FILES_VALUE](value)


def known(value: Json, path: str, folder: str = "files") -> str | None:
    return known_digest({FILES_VALUE: value}, folder, WorkingPath(path))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("12"))))
def test_the_last_digest_of_a_file_is_known(digests: list[tuple[str, str]]) -> None:
    value: Json = None
    for path, digest in digests:
        value = remember(value, path, digest)
    assert {path: known(value, path) for path in "abc"} == {path: dict(digests).get(path) for path in "abc"}


def test_the_least_recently_used_files_are_forgotten() -> None:
    value: Json = None
    for number in range(MAX_KNOWN_FILES):
        value = remember(value, str(number), "1")
    value = remember(remember(value, "0", "2"), "new", "3")
    assert (known(value, "0"), known(value, "1"), known(value, "2"), known(value, "new")) == ("2", None, "1", "3")
    assert len(value["files"]) == MAX_KNOWN_FILES


def test_known_files_belong_to_one_folder() -> None:
    value = remember(None, "a", "1")
    assert known(value, "a", folder="site") is None
    assert known(remember(value, "b", "2", folder="site"), "a") is None


def test_an_unreadable_value_knows_no_files() -> None:
    assert known({"files": 5}, "a") is None
    assert known(remember("nonsense", "a", "1"), "a") == "1"
