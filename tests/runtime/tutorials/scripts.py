"""The tutorials' scripts, assembled from their code blocks as the text tells."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).parent
_FIRST_LINE_THAT_RUNS = "print('Keras MNIST example, running on CPU')"


def _blocks(tutorial: str) -> dict[str, str]:
    files = sorted((_HERE / tutorial).glob("*.py"))
    return {file.stem[3:]: file.read_text(encoding="utf-8") for file in files}


def _keras(*names: str) -> str:
    """Return demo.py with the `ipu` import, up to what runs, and then some blocks."""
    blocks = _blocks("keras_mnist")
    definitions = blocks["cpu"].partition(_FIRST_LINE_THAT_RUNS)[0]
    chosen = [blocks["import"], definitions, *(blocks[name] for name in names)]
    return "\n".join(chosen)


def _pipelined(schedule: str) -> str:
    script = _keras(
        "pipeline",
        "pipelined_make_divisible",
        "prepare_data",
        "replicated_config",
        "strategy",
        "pipelined_model",
        "pipelined_train",
    )
    return script.replace("PipelineSchedule.Grouped", f"PipelineSchedule.{schedule}")


def tutorial_scripts() -> dict[str, str]:
    """Return every variant by name."""
    return {
        "cpu": _blocks("keras_mnist")["cpu"],
        "ipu": _keras("make_divisible", "prepare_data", "config", "strategy", "train"),
        "faster": _keras(
            "faster_make_divisible",
            "prepare_data",
            "config",
            "strategy",
            "faster_train",
        ),
        "replicated": _keras(
            "replicas",
            "replicated_make_divisible",
            "prepare_data",
            "replicated_config",
            "strategy",
            "replicated_train",
        ),
        "pipelined": _pipelined("Grouped"),
        "pipelined_interleaved": _pipelined("Interleaved"),
        "pipelined_sequential": _pipelined("Sequential"),
        "all_blocks_in_order": "\n".join(_blocks("keras_mnist").values()),
        "simple_mnist": "\n".join(_blocks("simple_mnist").values()),
    }
