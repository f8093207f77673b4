"""Commands where the machine is not as it should be: locale, home, disk, pipes."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.headless.conftest import Start
from workbench.headless.interruption import stop_on_interrupt
from workbench.runs.events import EpochEnded, RunStatus
from workbench.runs.run_context import RunControl
from workbench.runs.run_record import RunRecord
from workbench.runs.run_store import list_runs

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-m", "workbench"]
ROOT = str(Path(__file__).parent.parent.parent)
LONG = ("mnist-cpu", "--set=data.train_samples=256", "--set=train.epochs=100000")


def _run(
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    shell: str = "",
    user: int | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command, behind a shell's redirections if asked for."""
    words = [*COMMAND, *arguments]
    if shell:
        words = ["bash", "-c", f'set -o pipefail; "$@" {shell}', "bash", *words]
    return subprocess.run(
        words,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        timeout=300,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": ROOT, **(environment or {})},
        user=user,
        check=False,
    )


@pytest.mark.parametrize(
    "environment",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        {"PYTHONIOENCODING": "latin-1"},
        {"LC_ALL": "xx_YY.nonsense", "LANG": "%%%"},
    ],
)
def test_any_locale(environment: dict[str, str], tmp_path: Path) -> None:
    environment = {**environment, "IPU_WORKBENCH_HOME": str(tmp_path)}
    done = _run("plan", "mnist-ipu-pipelined", environment=environment)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "step" in done.stdout


def test_without_home_plans_work_and_records_are_refused_in_words() -> None:
    environment = {"HOME": "relative"}
    assert _run("plan", "mnist-dense", environment=environment).returncode == 0
    assert _run("presets", "list", environment=environment).returncode == 0
    for words in (["runs", "list"], ["run", "mnist-cpu"]):
        done = _run(*words, environment=environment)
        assert done.returncode == 1
        assert done.stderr == (
            "there is no home directory to keep files in: set HOME, or choose a "
            "directory with IPU_WORKBENCH_HOME\n"
        )


def test_a_file_in_place_of_the_directory_for_records(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    home = {"IPU_WORKBENCH_HOME": str(tmp_path / "file")}
    assert _run("runs", "list", environment=home).returncode == 0
    for words in (["run", "mnist-cpu"], ["sweep", "mnist-dense", "--grid=stages=2"]):
        done = _run(*words, environment=home)
        assert done.returncode == 1
        assert done.stderr.startswith(f"cannot write {tmp_path / 'file'}")
        assert done.stderr.count("\n") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_somebody_without_name_home_and_permission(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    probe = [sys.executable, "-c", "import workbench"]
    environment = {"PYTHONPATH": ROOT, "PATH": os.environ["PATH"]}
    try:
        subprocess.run(
            probe, user=54321, env=environment, capture_output=True, check=True
        )
    except (PermissionError, subprocess.CalledProcessError):
        pytest.skip("others cannot read this checkout")
    done = _run("run", "mnist-cpu", user=54321)
    assert done.returncode == 1
    assert "there is no home directory" in done.stderr
    home = {"IPU_WORKBENCH_HOME": str(closed)}
    for words in (["run", "mnist-cpu"], ["runs", "list"], ["plan", "mnist-cpu"]):
        done = _run(*words, environment=home, user=54321)
        assert "Traceback" not in done.stderr
        assert done.returncode == (0 if words[0] == "plan" else 1), done.stderr


@pytest.mark.parametrize(
    ("shell", "code", "said"),
    [
        ("| head -1", 0, ""),
        (">&-", 0, ""),
        ("2>&- >&-", 0, ""),
        ("> /dev/full", 1, "No space left on device\n"),
    ],
)
def test_output_that_nobody_or_nothing_takes(
    shell: str, code: int, said: str, tmp_path: Path
) -> None:
    home = {"IPU_WORKBENCH_HOME": str(tmp_path)}
    done = _run("presets", "list", environment=home, shell=shell)
    assert (done.returncode, done.stderr) == (code, said)


def test_without_readers_files_are_written_and_gates_kept(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    trace = tmp_path / "trace.json"
    words = ("plan", "mnist-dense", "--trace", str(trace), "--fail-if", "replicas >= 1")
    with os.fdopen(writer, "w") as nobody:
        done = subprocess.run([*COMMAND, *words], stdout=nobody, check=False)
    assert done.returncode == 4
    assert trace.stat().st_size


@pytest.mark.parametrize("shell", ["0<&- >&- 2>&-", "0<&- 2>&-", "0<&-"])
def test_a_command_with_closed_streams_does_its_work(
    shell: str, tmp_path: Path
) -> None:
    home = {"IPU_WORKBENCH_HOME": str(tmp_path)}
    words = ("sweep", "mnist-dense", "--plan-only", "--grid=data.batch_size=16,32")
    done = _run(*words, "--group=closed", environment=home, shell=shell)
    assert done.returncode == 0, done.stderr
    points = tmp_path / "sweeps" / "closed" / "points.jsonl"
    assert len(points.read_text().splitlines()) == 2


_INTERRUPTED_IMPORT = """
import os, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}":
            # Within a text, as where classes of data are made: Python then leaves by
            # the signal itself, unless the interrupt is none of its exceptions.
            exec("os.kill(os.getpid(), 2)")

sys.meta_path.insert(0, Interrupt())
"""


@pytest.mark.parametrize(
    "module",
    [
        "enum",
        "typing",
        "ipu_runtime",
        "workbench.headless.main",
        "workbench.headless.commands.run_command",
    ],
)
def test_an_interrupt_while_the_command_loads_is_one_line(
    module: str, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        _INTERRUPTED_IMPORT.format(module=module), encoding="utf-8"
    )
    places = f"{tmp_path}{os.pathsep}{ROOT}"
    home = {"IPU_WORKBENCH_HOME": str(tmp_path / "home"), "PYTHONPATH": places}
    done = _run("run", "mnist-cpu", environment=home)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")
    assert not (tmp_path / "home").exists()


def test_a_layer_of_thousands_of_digits_is_refused(tmp_path: Path) -> None:
    change = f"model.layers[{'9' * 5000}].units=3"
    home = {"IPU_WORKBENCH_HOME": str(tmp_path)}
    done = _run("plan", "mnist-dense", "--set", change, environment=home)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1, done.stderr[-300:]


def test_event_files_that_cannot_be_written_cost_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.touch()
    home = {"IPU_WORKBENCH_HOME": str(tmp_path / "home")}
    done = _run("run", "mnist-cpu", "--tensorboard", str(file), environment=home)
    assert done.returncode == 1
    assert done.stderr == (
        f"cannot write {file}: File exists; a file stands where a directory is needed\n"
    )
    monkeypatch.setenv("IPU_WORKBENCH_HOME", str(tmp_path / "home"))
    assert list_runs() == []


def test_event_files_are_exported_in_one_line_under_any_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IPU_WORKBENCH_HOME", str(tmp_path))
    record = RunRecord.create({}, "told")
    record.append(EpochEnded(1, 0.5, 0.75, 2.0, 3.0, 4.0))
    record.finish(RunStatus.FINISHED)
    output = os.fsdecode(os.fsencode(tmp_path) + b"/t\xff")
    home = {"IPU_WORKBENCH_HOME": str(tmp_path)}
    words = ("runs", "export", "latest", "--format=tensorboard", "--output", output)
    done = _run(*words, environment=home)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("1 written; look at them with: tensorboard")
    assert done.stderr.count("\n") == 1
    assert list(Path(output, record.run_id).glob("events.*"))


def test_files_that_cannot_be_written(tmp_path: Path) -> None:
    home = {"IPU_WORKBENCH_HOME": str(tmp_path)}
    for name in ("/dev/full", str(tmp_path), str(tmp_path / "none" / "x.json")):
        done = _run("plan", "mnist-dense", "--trace", name, environment=home)
        assert done.returncode == 1
        assert done.stderr.startswith(f"cannot write {name}: ")
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGTERM, marks=pytest.mark.thorough), signal.SIGHUP]
)
def test_signals_stop_the_run_and_keep_its_record(
    start: Start,
    number: signal.Signals,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The wrong Keras backend in the environment must not matter either.
    process = start("run", *LONG, "--json", environment={"KERAS_BACKEND": "jax"})
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line)["event"] == "epoch_ended":
            process.send_signal(number)
            break
    rest, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert json.loads(rest.splitlines()[-1])["status"] == "stopped"
    assert "Traceback" not in said
    monkeypatch.setenv("IPU_WORKBENCH_HOME", str(tmp_path))
    (run,) = list_runs()
    assert run.status.value == "stopped"
    assert run.series().epochs["loss"].ys


def test_a_disk_that_fills_up_ends_the_run_in_words(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 20_000

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    process = start("run", *LONG, "--json", preexec_fn=small_files)
    output, said = process.communicate(timeout=300)
    assert process.returncode == 1
    last = json.loads(output.splitlines()[-1])
    assert last["event"] == "run_ended"
    assert last["status"] == "failed"
    assert "cannot write" in last["message"]
    assert "Traceback" not in said
    monkeypatch.setenv("IPU_WORKBENCH_HOME", str(tmp_path))
    (run,) = list_runs()
    assert not run.live


def test_a_disk_that_is_full_under_an_estimator(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 200_000
    process = start(
        *("run", "mnist-dense", "--set=execution.api=ipu_estimator"),
        *("--set=train.steps_per_epoch=2", "--set=execution.steps_per_execution=2"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    _, said = process.communicate(timeout=300)
    monkeypatch.setenv("IPU_WORKBENCH_HOME", str(tmp_path))
    (run,) = list_runs()
    assert process.returncode == 1
    assert run.status is RunStatus.FAILED
    model = run.directory / "checkpoints" / "model"
    assert run.message == f"cannot write {model}: File too large"
    assert said.endswith(f"the run failed: {run.message}\n")
    assert "Traceback" not in said


def test_own_defaults_of_keras_do_not_reach_the_experiment(tmp_path: Path) -> None:
    (tmp_path / "keras.json").write_text(
        '{"floatx": "float64", "image_data_format": "channels_first", "backend": "jax"}'
    )
    places = {"IPU_WORKBENCH_HOME": str(tmp_path), "KERAS_HOME": str(tmp_path)}
    small = ("data.train_samples=128", "data.test_samples=32", "train.epochs=1")
    changes = [f"--set={change}" for change in small]
    done = _run("run", "mnist-cpu", *changes, "--quiet", environment=places)
    assert (done.returncode, done.stderr) == (0, "")


def test_under_nohup_a_lost_terminal_changes_nothing() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    control = RunControl()
    try:
        with stop_on_interrupt(control):
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert not control.stop.is_set()
