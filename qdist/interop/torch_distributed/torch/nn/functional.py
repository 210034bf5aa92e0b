"""torch.nn.functional's place, for `import ... as F`: this library's functions of tensors."""

from .....tensor.functional import *  # noqa: F403
from .....tensor.functional import __all__ as __all__
