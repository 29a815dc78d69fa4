"""Commands in a project find its virtual environment, and nothing that the project merely claims to be one."""

from pathlib import Path

import pytest

from holdfast.tools.commands.project_environment import ProjectEnvironment, project_environment


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "project"
    folder.mkdir()
    return folder


def installation(prefix: Path) -> Path:
    """Create a Python installation and return its interpreter."""
    for folder in ("bin", "lib/python3.11", "secrets"):
        (prefix / folder).mkdir(parents=True)
    for name in ("bin/python3.11", "bin/other", "lib/python3.11/os.py", "lib/libpython3.11.so", "secrets/key"):
        (prefix / name).touch()
    (prefix / "bin/python3").symlink_to("python3.11")
    return prefix / "bin/python3"


def virtual_env(project: Path, *, interpreter: Path, home: str) -> None:
    """Create a virtual environment."""
    (project / ".venv/bin").mkdir(parents=True)
    (project / ".venv/bin/python3").symlink_to(interpreter)
    (project / ".venv/bin/python").symlink_to("python3")
    (project / ".venv/pyvenv.cfg").write_text(f"home = {home}\ninclude-system-site-packages = false\n")


def environment(project: Path) -> ProjectEnvironment:
    return project_environment(project, written_by_agents=[project, project.with_name("workspace")])


def test_a_virtual_environment_comes_first_and_its_installation_is_readable(project: Path) -> None:
    prefix = project.with_name("python")
    virtual_env(project, interpreter=installation(prefix), home=f"{prefix}/bin")
    found = environment(project)
    assert found.variables["PATH"] == f"{project}/.venv/bin:/usr/local/bin:/usr/bin:/bin"
    assert found.variables["VIRTUAL_ENV"] == f"{project}/.venv"
    assert {str(path.relative_to(prefix)) for path in found.readable} == {
        "bin/python3",
        "bin/python3.11",
        "lib/python3.11",
        "lib/libpython3.11.so",
    }


def test_an_installation_behind_a_link_is_readable_where_it_is_named(project: Path) -> None:
    prefix, alias = project.with_name("python-3.11.7"), project.with_name("python-3.11")
    installation(prefix)
    alias.symlink_to(prefix)
    virtual_env(project, interpreter=alias / "bin/python3", home=f"{prefix}/bin")
    readable = environment(project).readable
    assert {alias / "lib/python3.11", prefix / "lib/python3.11"} <= {*readable}


def test_a_project_without_a_virtual_environment_has_the_usual_path(project: Path) -> None:
    found = environment(project)
    assert "PATH" not in found.variables and found.readable == ()
    assert found.variables["GIT_CONFIG_VALUE_0"] == str(project)


@pytest.mark.parametrize("name", ["home", "project/inner", "workspace/.holdfast/spaces/x", "missing"])
def test_what_is_no_installation_or_may_be_written_by_agents_is_not_readable(project: Path, name: str) -> None:
    prefix = project.parent / name
    if name == "home":  # it has programs and files, but no library of Python
        for folder in (prefix / "bin", prefix / "lib/python3.11/site-packages", prefix / ".ssh"):
            folder.mkdir(parents=True)
        (prefix / "bin/python3").touch()
    elif name != "missing":
        installation(prefix)
    virtual_env(project, interpreter=prefix / "bin/python3", home=f"{prefix}/bin")
    assert environment(project).readable == ()


@pytest.mark.parametrize("home", ["/etc/ssh", "relative", "", "/", "a\0b", "/proc/self/root/etc", "x" * 5000])
def test_a_hostile_home_makes_nothing_readable(project: Path, home: str) -> None:
    (project / ".venv/bin").mkdir(parents=True)
    (project / ".venv/bin/python").symlink_to("python")  # a circle
    (project / ".venv/pyvenv.cfg").write_text(f"home = {home}\n")
    assert environment(project).readable == ()


def test_a_library_that_leads_out_of_its_installation_is_not_readable(project: Path) -> None:
    prefix, secret = project.with_name("python"), project.with_name("secret")
    interpreter = installation(prefix)
    secret.mkdir()
    (secret / "os.py").touch()
    (prefix / "lib/python3.12").symlink_to(secret)
    virtual_env(project, interpreter=interpreter, home=f"{prefix}/bin")
    assert prefix / "lib/python3.12" not in environment(project).readable


@pytest.mark.parametrize("name", ["ls", "git", "bash"])
def test_a_virtual_environment_with_a_program_of_the_system_comes_last(project: Path, name: str) -> None:
    prefix = project.with_name("python")
    virtual_env(project, interpreter=installation(prefix), home=f"{prefix}/bin")
    (project / ".venv/bin/pytest").touch()
    assert environment(project).variables["PATH"].startswith(f"{project}/.venv/bin:")
    (project / ".venv/bin" / name).touch()
    assert environment(project).variables["PATH"] == f"/usr/local/bin:/usr/bin:/bin:{project}/.venv/bin"
