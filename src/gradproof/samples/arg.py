"""Descriptions of inputs in Python: ``arg.randn("B", "T", 64) * 0.5 + 1``.

Every function gives the record that the same words in the grammar give, and ``str`` of
that record is those words. Shapes are whole numbers and symbols ("B", "2*N").
"""

from gradproof.samples.constructors import between as between
from gradproof.samples.constructors import described as described
from gradproof.samples.constructors import fixed as fixed
from gradproof.samples.constructors import increasing as sorted
from gradproof.samples.constructors import index as index
from gradproof.samples.constructors import integers as int
from gradproof.samples.constructors import keyword as keyword
from gradproof.samples.constructors import mask as mask
from gradproof.samples.constructors import named as named
from gradproof.samples.constructors import permutation as permutation
from gradproof.samples.constructors import positive as positive
from gradproof.samples.constructors import rand as rand
from gradproof.samples.constructors import randn as randn
from gradproof.samples.constructors import simplex as simplex
from gradproof.samples.constructors import size as size
from gradproof.samples.constructors import spd as spd
from gradproof.samples.constructors import symmetric as symmetric
from gradproof.samples.constructors import triangular as triangular
from gradproof.samples.constructors import unit as unit
from gradproof.samples.constructors import upper as upper
from gradproof.samples.constructors import value as value
from gradproof.samples.constructors import within as within

__all__ = [
    "between", "described", "fixed", "index", "int", "keyword", "mask", "named",
    "permutation", "positive", "rand", "randn", "simplex", "size", "sorted", "spd", "symmetric",
    "triangular", "unit", "upper", "value", "within",
]  # fmt: skip
