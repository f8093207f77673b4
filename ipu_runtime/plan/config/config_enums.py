"""The enumerations of the IPU configuration, with the integers of the real ones."""

from __future__ import annotations

from enum import Enum


class SelectionOrder(Enum):
    """How the logical IPUs of one device map to physical ones."""

    AUTO = 0
    ZIGZAG = 1
    SNAKE = 2
    HOOF = 3


class DeviceConnectionType(Enum):
    """When a program attaches to the device."""

    ALWAYS = 0
    ON_DEMAND = 1
    NEVER = 2
    PRE_COMPILE = 3


class ExecutionProfileType(Enum):
    """How finely the older function-style configuration profiles."""

    NO_PROFILE = 0
    DEVICE_PROFILE = 1
    IPU_PROFILE = 2
    TILE_PROFILE = 3


class MergeRemoteBuffersBehaviour(Enum):
    """Whether remote buffers of equal shape share one buffer."""

    NO_MERGING = 0
    MERGE = 1
    IF_BENEFICIAL = 2


class SchedulingAlgorithm(Enum):
    """How the compiler orders operations."""

    CHOOSE_BEST = 0
    CLUSTERING = 1
    POST_ORDER = 2
    LOOK_AHEAD = 3
    SHORTEST_PATH = 4


class StochasticRoundingBehaviour(Enum):
    """Whether half-precision results are rounded at random."""

    OFF = 0
    ON = 1
    REPLICA_IDENTICAL_ONLY = 2

    @staticmethod
    def from_bool(value: bool) -> StochasticRoundingBehaviour:
        """Return ON or OFF."""
        behaviour = StochasticRoundingBehaviour
        return behaviour.ON if value else behaviour.OFF


ENUM_OF_FIELD: dict[str, type[Enum]] = {
    "selection_order": SelectionOrder,
    "device_connection.type": DeviceConnectionType,
    "floating_point_behaviour.esr": StochasticRoundingBehaviour,
    "optimizations.merge_remote_buffers": MergeRemoteBuffersBehaviour,
    "scheduling.algorithm": SchedulingAlgorithm,
}
"""The fields whose value is an enumeration; in files they are written by name."""
