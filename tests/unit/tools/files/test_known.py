from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.content import Json
from holdfast.domain.working_path import WorkingPath
from holdfast.tools.files.write import FILES_VALUE, MAX_KNOWN_FILES, known_digest, remember_digest


def learn(value: Json, path: str, digest: str, folder: str = "files") -> Json:
    return remember_digest(folder, WorkingPath(path), digest)[FILES_VALUE](value)


def known(value: Json, path: str, folder: str = "files") -> str | None:
    return known_digest({FILES_VALUE: value}, folder, WorkingPath(path))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("12"))))
def test_a_file_is_known_as_it_was_last(learnt: list[tuple[str, str]]) -> None:
    value: Json = None
    for path, digest in learnt:
        value = learn(value, path, digest)
    assert {path: known(value, path) for path in "abc"} == {path: dict(learnt).get(path) for path in "abc"}


def test_of_too_many_files_the_latest_are_known() -> None:
    value: Json = None
    for number in range(MAX_KNOWN_FILES):
        value = learn(value, str(number), "1")
    value = learn(learn(value, "0", "2"), "new", "3")
    assert (known(value, "0"), known(value, "1"), known(value, "2"), known(value, "new")) == ("2", None, "1", "3")
    assert len(value["files"]) == MAX_KNOWN_FILES


def test_another_folder_has_other_files() -> None:
    value = learn(None, "a", "1")
    assert known(value, "a", folder="site") is None
    assert known(learn(value, "b", "2", folder="site"), "a") is None


def test_a_value_that_nobody_can_read_knows_nothing() -> None:
    assert known({"files": 5}, "a") is None
    assert known(learn("nonsense", "a", "1"), "a") == "1"
