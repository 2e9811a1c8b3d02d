"""Creating, saving and loading arrays."""

from ..array.creation import *
