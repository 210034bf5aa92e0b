"""CUDA sources as texts with compiler options, NVRTC, and packs of kernels that were compiled ahead."""

__all__: list[str] = []
