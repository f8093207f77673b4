"""Several interceptors, of one process with any number of threads."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import pytest

import ipu_runtime
from ipu_runtime.config import IPUConfig, configure_ipu_system
from ipu_runtime.engine.describe.call_settings import intercepted_pipeline
from ipu_runtime.engine.describe.model_options import PipelineSchedule
from ipu_runtime.engine.watch.interception import (
    CONFIGURATION,
    Program,
    announce,
    changed_settings,
    intercepted_by,
    is_intercepted,
    layers_wanted,
    notice,
)
from ipu_runtime.system.device_state import current_state

pytestmark = pytest.mark.slow


class Wanting:
    """Wants settings otherwise, and notes what it is asked and told."""

    wants_layers = False

    def __init__(self, **changes: Any) -> None:
        self.changes = {name.replace("__", "."): v for name, v in changes.items()}
        self.seen: list[dict[str, Any]] = []
        self.told: list[str] = []

    def calling(
        self, call: str, training: bool, settings: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        self.seen.append(dict(settings))
        return {key: self.changes[key] for key in self.changes if key in settings}

    def starting(self, program: Program) -> None:
        self.told.append(program.name)

    def noticed(self, what: str) -> None:
        self.told.append(what)


def test_the_outer_one_sees_what_the_inner_one_wants_and_has_the_last_word() -> None:
    outer, inner = Wanting(epochs=3), Wanting(epochs=2, batch_size=8)
    with intercepted_by(outer), intercepted_by(inner):
        changes = changed_settings("fit", True, {"epochs": 1, "batch_size": 32})
    assert inner.seen == [{"epochs": 1, "batch_size": 32}]
    assert outer.seen == [{"epochs": 2, "batch_size": 8}]
    assert changes == {"epochs": 3, "batch_size": 8}


def test_the_outer_one_is_asked_again_when_the_inner_one_has_left() -> None:
    outer = Wanting(epochs=3)
    with intercepted_by(outer):
        with intercepted_by(Wanting(epochs=2)):
            pass
        assert changed_settings("fit", True, {"epochs": 1}) == {"epochs": 3}
    assert not is_intercepted()
    assert changed_settings("fit", True, {"epochs": 1}) == {}


def test_all_are_told_the_innermost_one_first() -> None:
    outer, inner = Wanting(), Wanting()
    inner.told = outer.told
    with intercepted_by(outer), intercepted_by(inner):
        notice("loops.repeat")
        announce(Program("fit", "ipu_strategy", None))
    assert outer.told == ["loops.repeat"] * 2 + ["fit"] * 2


def test_layers_are_wanted_if_one_of_them_wants_them() -> None:
    curious = Wanting()
    curious.wants_layers = True
    with intercepted_by(Wanting()):
        assert not layers_wanted()
        with intercepted_by(curious), intercepted_by(Wanting()):
            assert layers_wanted()


def test_one_that_is_entered_first_may_leave_first() -> None:
    first, second = ExitStack(), ExitStack()
    first.enter_context(intercepted_by(Wanting(epochs=2)))
    second.enter_context(intercepted_by(Wanting(epochs=3)))
    first.close()
    assert changed_settings("fit", True, {"epochs": 1}) == {"epochs": 3}
    second.close()
    assert not is_intercepted()


def test_a_thread_of_the_script_is_asked_for_too() -> None:
    found: list[Mapping[str, Any]] = []
    with intercepted_by(Wanting(epochs=2)):
        thread = threading.Thread(
            target=lambda: found.append(changed_settings("fit", True, {"epochs": 1}))
        )
        thread.start()
        thread.join()
    assert found == [{"epochs": 2}]


def test_a_pipeline_of_functions_gets_what_its_arguments_are_called() -> None:
    wanting = Wanting(schedule="Interleaved", gradient_accumulation=8)
    with intercepted_by(wanting):
        changes = intercepted_pipeline(
            "pipelining_ops.pipeline", True, {"gradient_accumulation_count": 4}
        )
    assert changes == {
        "pipeline_schedule": PipelineSchedule.Interleaved,
        "gradient_accumulation_count": 8,
    }
    assert wanting.seen[0]["schedule"] == "Grouped"
    assert wanting.seen[0]["recomputation"] == "Auto"


def test_a_pipeline_that_does_not_train_has_no_accumulation() -> None:
    wanting = Wanting(gradient_accumulation=8)
    with intercepted_by(wanting):
        arguments = {"gradient_accumulation_count": 4}
        assert intercepted_pipeline("pipelining_ops.pipeline", False, arguments) == {}
    assert "gradient_accumulation" not in wanting.seen[0]


def test_the_fields_of_a_configuration_are_settings() -> None:
    wanting = Wanting(ipu__auto_select_ipus=4)
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.io_tiles.num_io_tiles = 32
    ipu_runtime.config.reset_ipu_configuration()
    with intercepted_by(wanting):
        configure_ipu_system(config)
    fields = current_state().options.fields
    ipu_runtime.config.reset_ipu_configuration()
    (seen,) = wanting.seen
    assert (seen["ipu.auto_select_ipus"], seen["ipu.io_tiles.num_io_tiles"]) == (2, 32)
    assert seen["ipu.allow_recompute"] is False
    assert fields == {"auto_select_ipus": [4], "io_tiles.num_io_tiles": 32}
    assert CONFIGURATION in wanting.told
