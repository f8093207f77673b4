"""TF_POPLAR_FLAGS: read when needed, because scripts set it after importing."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from enum import IntEnum

from ipu_runtime.plan.config.field import nearest

VARIABLE = "TF_POPLAR_FLAGS"


class PoplarFlagsError(ValueError):
    """TF_POPLAR_FLAGS holds something that the device does not know."""


class SyntheticDataCategory(IntEnum):
    """What `--synthetic_data_categories` can leave out."""

    Seed = 0
    Infeed = 1
    Outfeed = 2
    HostEmbedding = 3
    Parameters = 4


@dataclass(frozen=True, slots=True)
class _Flag:
    kind: type
    default: bool | int | str
    help: str
    effect: bool = False
    """Whether the emulator does something with it."""


FLAGS = {
    "help": _Flag(bool, False, "print this list", True),
    "use_ipu_model": _Flag(bool, False, "run on the software IPU Model", True),
    "ipu_model_tiles": _Flag(int, 0, "tiles of the IPU Model", True),
    "use_synthetic_data": _Flag(bool, False, "move no data; results are zeros", True),
    "synthetic_data_categories": _Flag(str, "", "what is synthetic, by commas", True),
    "synthetic_data_initializer": _Flag(
        str, "", "random, uniform, normal or a number", True
    ),
    "executable_cache_path": _Flag(str, "", "directory of compiled programs", True),
    "log_cycle_count": _Flag(int, -1, "tile whose cycles are logged"),
    "max_compilation_threads": _Flag(int, -1, "threads that compile"),
    "max_infeed_threads": _Flag(int, -1, "threads that feed the device"),
    "while_loop_brute_force_max_trip_count": _Flag(int, 128, "unrolling trials"),
    "null_data_feed": _Flag(bool, False, "feed garbage"),
    "show_progress_bar": _Flag(str, "auto", "true, false or auto"),
    "use_on_demand": _Flag(bool, False, "attach when first needed"),
    "on_demand_device_poll_time": _Flag(int, 1000, "milliseconds between attempts"),
    "on_demand_device_timeout": _Flag(int, 3_600_000, "milliseconds to wait"),
    "sync_replica_start": _Flag(bool, False, "let replicas start together"),
    "tensor_map_file_path": _Flag(str, "", "directory of tile maps"),
    "dump_schedule_as_dot": _Flag(bool, False, "debugging"),
    "fallback_scheduler": _Flag(bool, False, "debugging"),
    "allow_nans": _Flag(bool, False, "debugging"),
    "enable_hlo_verifier": _Flag(bool, False, "debugging"),
    "disable_poplar_version_check": _Flag(bool, False, "debugging"),
}
_INITIALIZERS = ("random", "uniform", "normal")


@dataclass(frozen=True, slots=True)
class PoplarFlags:
    """The flags that have an effect here."""

    use_ipu_model: bool = False
    ipu_model_tiles: int = 0
    synthetic: frozenset[SyntheticDataCategory] = frozenset()
    """What is not moved between host and device."""
    synthetic_data_initializer: str = ""
    executable_cache_path: str = ""


def current_flags() -> PoplarFlags:
    """Return the flags as the environment has them now."""
    return parse_flags(os.environ.get(VARIABLE, ""))


def use_synthetic_data_for(synthetic_data_category: SyntheticDataCategory) -> bool:
    """Tell whether data of a category is synthetic."""
    return synthetic_data_category in current_flags().synthetic


@functools.lru_cache(maxsize=8)
def parse_flags(text: str) -> PoplarFlags:
    """Read the flags; anything unknown raises with the nearest that is known."""
    values: dict[str, bool | int | str] = {
        name: flag.default for name, flag in FLAGS.items()
    }
    for word in text.split():
        name, _, value = word.removeprefix("--").removeprefix("-").partition("=")
        if not word.startswith("-") or name not in FLAGS:
            raise PoplarFlagsError(_unknown(word, name))
        values[name] = _read(name, value, "=" in word)
    if values["help"]:
        print(help_text())
    return PoplarFlags(
        use_ipu_model=bool(values["use_ipu_model"]),
        ipu_model_tiles=int(values["ipu_model_tiles"]),
        synthetic=_synthetic(values),
        synthetic_data_initializer=str(values["synthetic_data_initializer"]),
        executable_cache_path=str(values["executable_cache_path"]),
    )


def help_text() -> str:
    """List all flags; those without an effect in the emulator are marked."""
    lines = [f"Flags of {VARIABLE}:"]
    for name, flag in FLAGS.items():
        shown = name if flag.kind is bool else f"{name}=<{flag.kind.__name__}>"
        note = "" if flag.effect else " (accepted, no effect in the emulator)"
        lines.append(f"  --{shown:<46} {flag.help}{note}")
    return "\n".join(lines)


def _unknown(word: str, name: str) -> str:
    close = nearest(name, FLAGS)
    hint = f"did you mean --{close}?" if close else "--help lists those that are"
    return f"{VARIABLE}: {word!r} is not a known flag; {hint}"


def _read(name: str, value: str, given: bool) -> bool | int | str:
    flag = FLAGS[name]
    if flag.kind is bool:
        if not given or value.lower() in ("true", "1"):
            return True
        if value.lower() in ("false", "0"):
            return False
        raise PoplarFlagsError(
            f"{VARIABLE}: --{name}={value}: a switch takes true or false"
        )
    if flag.kind is int:
        try:
            return int(value)
        except ValueError:
            raise PoplarFlagsError(
                f"{VARIABLE}: --{name}={value}: a whole number is needed"
            ) from None
    return value


def _synthetic(
    values: dict[str, bool | int | str],
) -> frozenset[SyntheticDataCategory]:
    by_name = {member.name.lower(): member for member in SyntheticDataCategory}
    categories = []
    for name in filter(None, str(values["synthetic_data_categories"]).split(",")):
        if name not in by_name:
            raise PoplarFlagsError(
                f"{VARIABLE}: --synthetic_data_categories: {name!r} is not one of "
                f"{', '.join(by_name)}"
            )
        categories.append(by_name[name])
    if values["use_synthetic_data"]:
        categories = list(SyntheticDataCategory)
    initializer = str(values["synthetic_data_initializer"])
    if initializer:
        known = initializer in _INITIALIZERS or initializer.lstrip("-").isdecimal()
        if not categories or not known:
            raise PoplarFlagsError(
                f"{VARIABLE}: --synthetic_data_initializer={initializer}: it must be "
                f"{', '.join(_INITIALIZERS)} or a whole number, and needs "
                "--use_synthetic_data or --synthetic_data_categories"
            )
    return frozenset(categories)
