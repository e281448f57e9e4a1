"""Names of the arrays that this room passes around."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Bools: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
Codes: TypeAlias = np.ndarray[Any, np.dtype[np.int8]]
