"""The data of kauldron_ae.py."""

import numpy as np


def images() -> dict[str, np.ndarray]:
    return {"image": np.ones((4096, 28, 28, 1), np.float32)}
