"""torch.optim's place, for `import ... as optim`: this library's optimisers."""

from ....optim import *  # noqa: F403
from ....optim import __all__ as __all__
