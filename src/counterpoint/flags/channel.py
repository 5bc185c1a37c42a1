"""Channel: the way by which a setting reaches the program. The same name may work in one only."""

from __future__ import annotations

from enum import StrEnum


class Channel(StrEnum):
    """Where a setting is read from."""

    XLA_FLAGS = "XLA_FLAGS"  # once per process
    COMPILER_OPTIONS = "compiler_options"  # per compile, of jax.jit or lowered.compile
    LIBTPU_INIT_ARGS = "LIBTPU_INIT_ARGS"  # libtpu's own flags, once per process
    ENVIRONMENT = "environment"  # JAX, NCCL, CUDA, the allocator, logging
    JAX_CONFIG = "jax.config"  # jax.config.update in the program
