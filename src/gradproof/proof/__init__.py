"""One rule in, one record out; see README.md beside this file."""

from gradproof.proof.order import prove as prove
from gradproof.proof.run import WHOLE_SECONDS as WHOLE_SECONDS
from gradproof.proof.run import Options as Options
