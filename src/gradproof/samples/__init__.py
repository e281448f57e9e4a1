"""Room: see README.md beside this file."""

from gradproof.samples import arg as arg
from gradproof.samples.described import Described as Described
from gradproof.samples.drawing import Drawn as Drawn
from gradproof.samples.drawing import draw as draw
from gradproof.samples.extents import fill as fill
from gradproof.samples.extents import neighbours as neighbours
from gradproof.samples.grammar import parse as parse
from gradproof.samples.grammar import parse_one as parse_one
from gradproof.samples.guessing import explain_choice as explain_choice
from gradproof.samples.guessing import guess as guess
from gradproof.samples.guessing import quoted as quoted
from gradproof.samples.guessing import unfamiliar as unfamiliar
