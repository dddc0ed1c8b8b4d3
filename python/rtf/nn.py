"""The trainable modules: `RTF` and `SequenceModel`, with the names and options of the C++ ones and of configs, and `S4Block`."""

from __future__ import annotations

from .layer import RTF
from .s4_block import S4Block
from .sequence_model import ModelState, SequenceModel

__all__ = ["ModelState", "RTF", "S4Block", "SequenceModel"]
