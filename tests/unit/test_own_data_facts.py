"""Tables and images of the user's own, looked at without loading them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from workbench.data import image_folder
from workbench.data.dataset_facts import DatasetError, dataset_facts
from workbench.experiment.experiment_loading import load_experiment


def _table(folder: Path, *rows: str) -> str:
    path = folder / "own.csv"
    path.write_text("\n".join(("a,b,label", *rows)))
    return str(path)


def _images(folder: Path, *names: str) -> str:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return str(folder)


def test_names_of_classes_are_counted(tmp_path: Path) -> None:
    name = _table(tmp_path, "1,2,up", "3,4.5,down", "5,6,up", "", "7,8,left")
    facts = dataset_facts(name, test_share=0.25)
    assert (facts.train_samples, facts.test_samples) == (3, 1)
    assert (facts.sample_shape, facts.classes) == ((2,), 3)


def test_labels_with_a_point_are_numbers_to_be_met(tmp_path: Path) -> None:
    assert dataset_facts(_table(tmp_path, "1,2,0.5", "1,2,3")).label_shape == ()
    changed = _table(tmp_path, "1,2,7", "1,2,-1")
    os.utime(changed, (1, 1))
    assert dataset_facts(changed).labels == (-1, 7)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (("1,x,0",), 'row 2, column b: "x" is no number'),
        (("1,2,0", "1,nan,0"), 'row 3, column b: "nan"'),
        (("1,2",), "row 2 has 2 values, the first 3"),
        (("1,2,",), "sample 1 has no label"),
        ((), "no samples"),
    ],
)
def test_a_faulty_table_is_told_by_row(
    tmp_path: Path, rows: tuple[str, ...], words: str
) -> None:
    with pytest.raises(DatasetError, match=words):
        dataset_facts(_table(tmp_path, *rows))


def test_spaces_round_the_names_of_columns_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("a, b, label\n1, 2, 0\n3, 4, 1\n")
    assert dataset_facts(str(path)).labels == (0, 1)
    path.write_text("label,b,label\n1,2,0\n")
    os.utime(path, (1, 1))
    with pytest.raises(DatasetError, match='has several columns "label"'):
        dataset_facts(str(path))


def test_an_empty_table_is_called_that(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.touch()
    with pytest.raises(DatasetError, match=r"own.csv is empty$"):
        dataset_facts(str(path))
    path.write_text("a,b,label\n")
    with pytest.raises(DatasetError, match="has no samples below its first row"):
        dataset_facts(str(path))


def test_a_missing_label_column_names_the_columns(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="label_column to one of: a, b, label"):
        dataset_facts(_table(tmp_path, "1,2,3"), label_column="kind")


def test_a_file_that_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_bytes(b"\xff\xfe\x00,label\n")
    with pytest.raises(DatasetError, match=r"is no \.csv file"):
        dataset_facts(str(tmp_path / "own.csv"))


def test_class_numbers_are_checked_by_the_plan(tmp_path: Path) -> None:
    rows = [",".join(["0"] * 784 + [str(n)]) for n in range(12)]
    head = ",".join([f"p{n}" for n in range(784)] + ["label"])
    (tmp_path / "own.csv").write_text("\n".join([head, *rows]))
    changes = (f"data.dataset={tmp_path / 'own.csv'}", "data.batch_size=1")
    loaded = load_experiment("mnist-dense", changes)
    assert loaded.spec is None
    assert "labels go from 0 to 11, but" in str(loaded.problems[0])


def test_images_are_counted_by_class(tmp_path: Path) -> None:
    name = _images(tmp_path, "a/1.png", "a/in/2.JPG", "a/note.txt", "b/1.gif", ".c/x")
    facts = dataset_facts(name, test_share=0.0)
    assert (facts.train_samples, facts.test_samples, facts.classes) == (3, 0, 2)
    _images(tmp_path, "a/3.png")
    assert dataset_facts(name, test_share=0.0).train_samples == 4


def test_a_directory_without_classes_is_no_data(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="needed: a directory for each class"):
        dataset_facts(_images(tmp_path, "1.png", "2.png"))


def test_both_parts_need_the_same_classes(tmp_path: Path) -> None:
    name = _images(tmp_path, "train/a/1.png", "train/b/1.png", "test/a/1.png")
    with pytest.raises(DatasetError, match="not the same classes: b"):
        dataset_facts(name)


def test_a_directory_of_everything_is_not_gone_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_folder, "_MOST_OTHERS", 20)
    for name in ("bin", "lib"):
        for number in range(6):
            (tmp_path / name / str(number)).mkdir(parents=True)
            (tmp_path / name / f"{number}.txt").touch()
    with pytest.raises(DatasetError, match="full of files that are no images"):
        dataset_facts(str(tmp_path))


def test_images_need_a_model_that_takes_some(tmp_path: Path) -> None:
    files = [f"{n}/{m}.png" for n in range(10) for m in range(20)]
    name = _images(tmp_path, *files)
    changes = (f"data.dataset={name}", "train.evaluate=false")
    loaded = load_experiment("mnist-dense", changes)
    assert loaded.spec is None
    assert "holds images, but the model takes 28x28" in str(loaded.problems[0])
    assert load_experiment("mnist-ipu", changes).spec is not None


def test_a_file_cannot_trust_its_own_data(tmp_path: Path) -> None:
    preset = tmp_path / "my.toml"
    preset.write_text('[experiment]\ntitle = "t"\n[data]\ntrusted = true\n')
    with pytest.raises(Exception, match=r"data\.trusted: a file cannot say"):
        load_experiment(str(preset))
