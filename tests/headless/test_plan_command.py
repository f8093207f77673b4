"""`plan` and `balance` on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from workbench.headless.main import main


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    code = main(arguments, {}, _no_app)
    return code, capsys.readouterr()


def _no_app(*, theme: str | None, ascii_only: bool) -> int:
    raise AssertionError("a command opens no app")


@pytest.mark.parametrize(
    ("preset", "us"),
    [("mnist-ipu", 3000), ("mnist-ipu-faster", 224), ("mnist-ipu-replicated", 135)],
)
def test_figures_of_the_tutorial_are_met(
    capsys: pytest.CaptureFixture[str], preset: str, us: float
) -> None:
    code, output = printed(capsys, "plan", preset, "--json")
    row = json.loads(output.out)
    assert code == 0
    assert row["event"] == "plan"
    assert row["ipu_us_per_batch"] == pytest.approx(us, rel=0.1)
    sums = [p["where"] for p in row["problems"]]
    # The tutorial leaves the rate as it is when replicas are summed.
    assert sums == ["train.learning_rate"] * (preset == "mnist-ipu-replicated")


def test_json_of_a_pipeline_has_the_agreed_keys(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, output = printed(capsys, "plan", "mnist-ipu-pipelined", "--json")
    (line,) = output.out.splitlines()
    row = json.loads(line)
    agreed = {
        "event",
        "replicas",
        "ipus",
        "ipu_step_us",
        "ipu_us_per_batch",
        "host_us_per_step",
        "samples_per_second",
        "bubble_fraction",
        "stages",
        "problems",
    }
    assert agreed <= row.keys()
    assert [stage["index"] for stage in row["stages"]] == [0, 1]
    assert {
        "layers",
        "forward_us",
        "backward_us",
        "memory_bytes",
        "capacity_bytes",
        "fits",
    } <= row["stages"][0].keys()
    parts = row["step_parts_us"]
    assert sum(parts.values()) == pytest.approx(row["ipu_step_us"])


def test_text_shows_parts_memory_stages_and_timeline(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, output = printed(capsys, "plan", "mnist-ipu-pipelined")
    lines = output.out.splitlines()
    assert code == 0
    assert max(map(len, lines)) <= 100
    assert "IPU1 │·· F0 B0 F1 B1 F2 B2 F3 B3" in output.out
    assert output.out.count("modelled") + output.out.count("Modelled") >= 5
    assert "effective learning rate 0.08" in " ".join(output.out.split())


def test_ascii_text_is_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    more = "--memory", "--band", "--schedules"
    _, output = printed(capsys, "plan", "bert-large-pod16", *more, "--ascii")
    assert output.out.isascii()
    assert "Pod16 | 16 IPUs | 4 replicas" in output.out
    assert max(map(len, output.out.splitlines())) <= 100
    _, output = printed(
        capsys, "balance", "mnist-ipu-pipelined", "--stages", "2", "--ascii"
    )
    assert output.out.isascii()


def test_schedules_that_the_ipu_lacks_are_marked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, output = printed(capsys, "plan", "mnist-ipu-pipelined", "--schedules")
    marked = [x for x in output.out.splitlines() if x.endswith("not on the IPU")]
    assert [line.split()[0] for line in marked] == [
        "GPipe",
        "1F1B",
        "Interleaved",
        "ZB-H1",
    ]
    assert "this plan" in output.out


def test_wrong_count_exits_with_2_and_says_what_works(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, output = printed(
        capsys,
        "plan",
        "mnist-ipu-pipelined",
        "--set",
        "execution.gradient_accumulation=6",
    )
    assert code == 2
    assert output.out == ""
    assert "execution.gradient_accumulation: the number of iter" in output.err
    assert "must be a multiple of 4, but it is 6" in output.err
    assert "try 4 or 8" in output.err


def test_what_does_not_fit_exits_with_3(capsys: pytest.CaptureFixture[str]) -> None:
    changes = ("--set", "data.batch_size=64", "--set", "data.train_samples=8192")
    code, output = printed(capsys, "plan", "resnet50-pod16", *changes)
    assert code == 3
    assert "does not fit" in output.out


def test_trace_is_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = tmp_path / "trace.json"
    code, output = printed(
        capsys, "plan", "mnist-ipu-pipelined", "--trace", str(target)
    )
    assert code == 0
    assert "written" in output.err
    assert json.loads(target.read_text())["traceEvents"]


def test_trace_that_cannot_be_written_is_no_traceback(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "missing" / "trace.json"
    (tmp_path / "missing").write_text("a file, not a directory")
    code, output = printed(capsys, "plan", "mnist-ipu", "--trace", str(target))
    assert code == 1
    assert "trace.json" in output.err or "missing" in output.err


def test_balance_gives_changes_that_are_valid_and_better(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, output = printed(capsys, "balance", "mnist-ipu", "--stages", "3", "--json")
    row = json.loads(output.out)
    assert code == 0
    assert row["event"] == "balance"
    assert set(row["stage_of_layer"]) == {0, 1, 2}
    changes = [part for text in row["changes"] for part in ("--set", text)]
    code, output = printed(capsys, "plan", "mnist-ipu", *changes, "--json")
    plan = json.loads(output.out)
    assert code == 0
    assert len(plan["stages"]) == 3
    assert plan["ipu_us_per_batch"] == pytest.approx(row["ipu_us_per_batch"])
    assert row["best"]["step_time_us"] <= row["uniform"]["step_time_us"]


def test_balance_names_the_best_single_move(capsys: pytest.CaptureFixture[str]) -> None:
    _, output = printed(capsys, "balance", "mnist-ipu-pipelined", "--stages", "2")
    assert "Best single move now: max_pooling2d_1 from stage 1 to 0" in output.out
    assert "--set 'pipeline.stages=[" in output.out


def test_locked_layers_stay(capsys: pytest.CaptureFixture[str]) -> None:
    _, output = printed(
        capsys,
        "balance",
        "mnist-ipu-pipelined",
        "--stages",
        "2",
        "--set",
        'pipeline.locked=["max_pooling2d_1"]',
        "--json",
    )
    row = json.loads(output.out)
    at = row["layers"].index("max_pooling2d_1")
    assert row["stage_of_layer"][at] == 1


def test_locked_layers_are_not_moved_into_fewer_stages(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ("--stages", "4", "--set", "pipeline.locked=classes")
    code, output = printed(capsys, "balance", "mnist-dense-8-stages", *arguments)
    assert code == 2
    assert "classes is locked in stage 7 (pipeline.locked)" in output.err


def test_impossible_number_of_stages_exits_with_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, output = printed(capsys, "balance", "mnist-ipu", "--stages", "9")
    assert code == 2
    assert "2 to 7 stages" in output.err


def test_balance_that_cannot_fit_exits_with_3_and_lists_what_was_tried(
    capsys: pytest.CaptureFixture[str],
) -> None:
    changes = ("--set", "data.batch_size=32", "--set", "data.train_samples=16384")
    code, output = printed(
        capsys, "balance", "resnet50-pod16", "--stages", "4", *changes
    )
    assert code == 3
    assert "recomputation on" in output.out
    assert "too much" in output.out


@pytest.mark.parametrize(
    ("preset", "replicas", "stages"),
    [
        ("resnet50-pod16", 16, 1),
        ("bert-large-pod16", 4, 4),
        ("mnist-dense-8-stages", 1, 8),
    ],
)
def test_large_presets_fit_their_device(
    capsys: pytest.CaptureFixture[str], preset: str, replicas: int, stages: int
) -> None:
    code, output = printed(capsys, "plan", preset, "--json")
    row = json.loads(output.out)
    assert code == 0
    assert row["replicas"] == replicas
    assert len(row["stages"]) == stages
    assert all(stage["fits"] for stage in row["stages"])


def test_a_band_holds_every_main_figure(capsys: pytest.CaptureFixture[str]) -> None:
    code, output = printed(capsys, "plan", "mnist-ipu-pipelined", "--band", "--json")
    row = json.loads(output.out)
    assert code == 0
    for name in ("ipu_step_us", "ipu_us_per_batch", "samples_per_second"):
        band = row["band"][name]
        assert band["low"] < row[name] < band["high"]
        assert "sync" in band["sources"]
    assert row["band"]["memory_fraction"]["sources"].keys() == {"code", "memory"}
    _, plain = printed(capsys, "plan", "mnist-ipu-pipelined", "--json")
    assert "band" not in json.loads(plain.out)


def test_the_band_says_what_moves_it(capsys: pytest.CaptureFixture[str]) -> None:
    _, output = printed(capsys, "plan", "mnist-ipu", "--band")
    text = output.out.partition("How far off it may be")[2]
    assert "time is moved by host 19 %" in text
    assert "memory is moved by code 19 %, memory 12 %" in text


def test_the_band_says_how_often_it_holds(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    _, output = printed(capsys, "plan", "mnist-ipu", "--band")
    assert "90 % of published throughputs lie in it" in output.out
    _, output = printed(capsys, "plan", "mnist-ipu", "--band", "--json")
    band = json.loads(output.out)["band"]
    assert band["samples_per_second"]["coverage"] == 0.9
    assert band["memory_fraction"]["coverage"] is None
    # Nobody has measured hardware of the user's own.
    path = tmp_path / "lab.toml"
    path.write_text("[constants.sigma]\nvalue = 600.0\n")
    monkeypatch.setenv("IPU_WORKBENCH_HARDWARE", str(path))
    _, output = printed(capsys, "plan", "mnist-ipu", "--band")
    assert "published throughputs" not in output.out


def test_predictions_are_planned_without_an_estimator(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, output = printed(capsys, "plan", "mnist-ipu-faster", "--inference", "--json")
    row = json.loads(output.out)
    assert code == 0
    assert row["request"]["training"] is False
    assert row["request"]["label_values"] == 0
    assert row["updates_per_epoch"] == row["step_parts_us"]["update_us"] == 0
    # 10,000 test images in batches of 64.
    assert row["steps_per_epoch"] == 156
    _, trained = printed(capsys, "plan", "mnist-ipu-faster", "--json")
    assert row["samples_per_second"] > json.loads(trained.out)["samples_per_second"]


def test_schedules_are_compared_for_training_only(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="2"):
        printed(capsys, "plan", "mnist-ipu", "--inference", "--schedules")
    assert "not allowed with argument --inference" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("offload_weight_update_variables", "no pipeline whose optimizer state"),
        ("replicated_optimizer_state_sharding", "only what is offloaded is shared"),
        ("offload_gradient_accumulation_buffers", "whose sums of gradients"),
        ("replicated_weight_sharding", "no pipeline whose weights"),
        ("offload_weights", "only weights that replicas share"),
    ],
)
def test_state_that_cannot_be_offloaded_is_said(
    capsys: pytest.CaptureFixture[str], change: str, problem: str
) -> None:
    code, output = printed(
        capsys, "plan", "mnist-ipu", "--json", "--set", f"pipeline.{change}=true"
    )
    assert code == 0
    assert problem in output.err


def test_memory_over_the_program_is_the_memory_of_the_plan(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["plan", "mnist-ipu-pipelined", "--memory"]
    _, output = printed(capsys, *arguments, "--json")
    plan = json.loads(output.out)
    for item, walk in zip(plan["memory"], plan["memory_walk"], strict=True):
        assert walk["ipu"] == item["ipu"]
        assert walk["peak_bytes"] == item["used_bytes"]
        peak = walk["steps"][walk["peak_step"]]
        assert set(peak) == {
            "name",
            "stage",
            "layer",
            "tensor_bytes",
            "temporary_bytes",
        }
        besides = peak["tensor_bytes"] + peak["temporary_bytes"]
        assert walk["always_live_bytes"] + besides == walk["peak_bytes"]
        assert sum(alive["bytes"] for alive in walk["alive_at_peak"]) == besides
        assert all(
            walk["always_live_bytes"] + step["tensor_bytes"] + step["temporary_bytes"]
            <= walk["peak_bytes"]
            for step in walk["steps"]
        )
    _, output = printed(capsys, *arguments, "--ascii")
    text = output.out
    assert "Memory over the program of IPU 0" in text
    assert "|forward" in text
    assert text.isascii()


def test_the_walk_is_left_out_unless_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, output = printed(capsys, "plan", "mnist-ipu", "--json")
    assert "memory_walk" not in json.loads(output.out)
    _, output = printed(capsys, "plan", "mnist-ipu")
    assert "Memory over the program" not in output.out
