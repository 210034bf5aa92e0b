"""Without torch there is nothing to test."""

try:
    import torch
except ImportError:
    collect_ignore_glob = ["test_*.py"]
else:
    torch.set_num_threads(1)
