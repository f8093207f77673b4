"""What may run is what the user has trusted, as it was then."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import pytest

from workbench.experiment.experiment_loading import (
    load_experiment,
    recorded_experiment,
    untrusted_sources,
)
from workbench.experiment.preset_store import load_preset
from workbench.locations import trust_directory
from workbench.models import code_trust
from workbench.models.code_trust import check_may_run, is_trusted, trust
from workbench.models.model_source import SourceError, parse_source
from workbench.models.source_building import imported_function


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "code" / "parts").mkdir(parents=True)
    folder = tmp_path / "code"
    (folder / "net.py").write_text("import helper\nfrom parts import inner\n")
    (folder / "helper.py").write_text("from deeper import x\n")
    (folder / "deeper.py").write_text("x = 1\n")
    (folder / "parts" / "__init__.py").write_text("")
    (folder / "parts" / "inner.py").write_text("from . import more\n")
    (folder / "parts" / "more.py").write_text("")
    (folder / "other.py").write_text("")
    return folder / "net.py"


def _forget_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_trust, "_trusted_here", set())


def test_trust_is_remembered_until_the_code_changes(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not is_trusted(script)
    trust(script)
    _forget_this_process(monkeypatch)
    assert is_trusted(script)
    before = script.read_text()
    script.write_text(before + "# changed\n")
    assert not is_trusted(script)
    script.write_text(before)
    assert is_trusted(script)


@pytest.mark.parametrize(
    "imported", ["helper.py", "deeper.py", "parts/__init__.py", "parts/inner.py"]
)
def test_what_it_imports_from_beside_it_is_part_of_it(
    script: Path, imported: str
) -> None:
    trust(script)
    (script.parent / imported).write_text("print('changed')\n")
    assert not is_trusted(script)


def test_relative_imports_are_part_of_it(script: Path) -> None:
    trust(script)
    (script.parent / "parts" / "more.py").write_text("print('changed')\n")
    assert not is_trusted(script)


def test_a_module_that_appears_beside_it_is_part_of_it(script: Path) -> None:
    script.write_text("import json\n")
    trust(script)
    (script.parent / "json.py").write_text("print('mine now')\n")
    assert not is_trusted(script)


def test_what_it_does_not_import_is_not(script: Path) -> None:
    trust(script)
    (script.parent / "other.py").write_text("print('changed')\n")
    assert is_trusted(script)


def test_the_same_code_elsewhere_is_not_trusted(script: Path) -> None:
    trust(script)
    moved = script.parent.rename(script.parent.with_name("elsewhere"))
    assert not is_trusted(moved / "net.py")


def test_a_home_that_came_from_elsewhere_says_nothing(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust(script)
    (key,) = trust_directory().iterdir()
    foreign = tmp_path / "foreign"
    for folder in ("trusted", "state/trusted", "ipu-workbench/trusted"):
        (foreign / folder).mkdir(parents=True)
        (foreign / folder / key.name).write_text("")
    _forget_this_process(monkeypatch)
    monkeypatch.setenv("IPU_WORKBENCH_HOME", str(foreign))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another user"))
    assert not is_trusted(script)


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_what_others_could_have_written_says_nothing(
    script: Path, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust(script)
    _forget_this_process(monkeypatch)
    trust_directory().chmod(mode)
    assert not is_trusted(script)


def test_only_this_user_can_look_into_it(script: Path) -> None:
    trust(script)
    assert trust_directory().stat().st_mode & 0o777 == 0o700


def test_without_a_place_it_holds_for_this_process(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "")
    trust(script)
    assert is_trusted(script)


def test_classes_beside_a_model_file_are_part_of_it(tmp_path: Path) -> None:
    config = {"module": "own", "class_name": "Mine", "config": {}}
    with zipfile.ZipFile(tmp_path / "net.keras", "w") as archive:
        archive.writestr("config.json", json.dumps(config))
    (tmp_path / "own.py").write_text("class Mine: pass\n")
    trust(tmp_path / "net.keras")
    assert is_trusted(tmp_path / "net.keras")
    (tmp_path / "own.py").write_text("print('changed')\n")
    assert not is_trusted(tmp_path / "net.keras")


def test_nothing_is_imported_that_is_not_trusted(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    (tmp_path / "evil.py").write_text(f"open({str(ran)!r}, 'w')\ndef build(): ...\n")
    source = parse_source(f"{tmp_path / 'evil.py'}:build")
    with pytest.raises(SourceError, match="--trust"):
        imported_function(source)
    assert not ran.exists()


def test_what_is_not_there_is_no_question_of_trust(tmp_path: Path) -> None:
    source = f"{tmp_path / 'none.py'}:build"
    assert untrusted_sources({"model": {"source": source}}) == {}
    with pytest.raises(SourceError, match="No such file"):
        check_may_run(parse_source(source))


@pytest.mark.parametrize("section", ["model", "data"])
@pytest.mark.parametrize("content", [None, "", 3, "x"])
def test_a_record_cannot_run_code(
    section: str, content: object, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    (tmp_path / "evil.py").write_text(f"open({str(ran)!r}, 'w')\ndef build(): ...\n")
    named = f"{tmp_path / 'evil.py'}:build"
    key = {"model": "source", "data": "dataset"}[section]
    tables = dict(load_preset("mnist-dense").tables)
    tables[section] = {**tables[section], key: named, "trusted": True}
    if section == "model":
        del tables["model"]["layers"]
    if content is not None:
        tables[section]["content"] = content
    for trusted in (False, True):
        spec, problems = recorded_experiment(tables, trust=trusted, calls=False)
        assert spec is None
        assert problems[0].where == f"{section}.{key}"
    assert not ran.exists()


def test_naming_a_function_trusts_it_and_a_preset_does_not(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("build = 3\n")
    text = '[experiment]\ntitle = "t"\n[model]\nsource = "own.py:build"\n'
    (tmp_path / "mine.toml").write_text(text)
    refused = load_experiment(str(tmp_path / "mine.toml"))
    assert "--trust" in str(refused.problems[0])
    assert not is_trusted(tmp_path / "own.py")
    load_experiment(str(tmp_path / "own.py") + ":build")
    assert is_trusted(tmp_path / "own.py")
    again = load_experiment(str(tmp_path / "mine.toml"))
    assert "has no function build" in str(again.problems[0])


def test_links_to_the_place_of_trust_are_not_followed(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust(script)
    (key,) = trust_directory().iterdir()
    kept = key.rename(key.with_name("elsewhere"))
    os.symlink(kept, key)
    _forget_this_process(monkeypatch)
    assert not is_trusted(script)
