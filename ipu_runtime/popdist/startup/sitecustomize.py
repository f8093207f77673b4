"""Let scripts of an instance find the emulator, however they are started."""

from ipu_runtime.installing.install import install
from ipu_runtime.system.environment import prepare_environment

prepare_environment()
install()
