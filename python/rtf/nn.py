"""The trainable modules, with the names and options of the C++ ones and of configs: `RTF` and `SequenceModel`."""

from __future__ import annotations

from .layer import RTF
from .sequence_model import ModelState, SequenceModel

__all__ = ["ModelState", "RTF", "SequenceModel"]
