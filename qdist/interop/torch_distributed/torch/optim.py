"""torch.optim's place, for `import ... as optim`: this library's optimisers, and `lr_scheduler` below it."""

import sys

from ....optim import *  # noqa: F403
from ....optim import __all__ as _optimisers
from . import lr_scheduler

__all__ = [*_optimisers, "lr_scheduler"]

# As os has os.path: `from ....torch.optim.lr_scheduler import StepLR` finds it.
sys.modules[f"{__name__}.lr_scheduler"] = lr_scheduler
