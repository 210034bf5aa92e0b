"""split_data gives every rank its samples. Changed: imports."""

import numpy as np

from qdist.interop.vqnet.distributed import split_data

x_train = np.random.randint(255, size=(100, 5))
y_train = np.random.randint(2, size=(100, 1))

x_train, y_train = split_data(x_train, y_train)
