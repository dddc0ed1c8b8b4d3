"""A model that is one baseline layer, for the tests of its values."""

import pytest
import reference_model
import torch

# Identities around it, no norm, no gate.
BARE = dict(layers=1, residual=False, norm="none", activation="identity", glu=False, decoder="position")


def options_of(length, channels=4, **more):
    options = dict(reference_model.DEFAULTS, init="zero", initial_gain="paper", seed=3, **BARE)
    options.update(channels=channels, features=channels, outputs=channels, length=length)
    options.update(more)
    return options


def bare_weights(channels):
    ends = ("encoder", "decoder")
    weights = {f"weights.{end}.weight": torch.eye(channels, dtype=torch.float64) for end in ends}
    return weights | {f"weights.{end}.bias": torch.zeros(channels, dtype=torch.float64) for end in ends}


@pytest.fixture
def run(model_runner):
    """run(options, tensors, *commands): what the commands save, computed in float64."""

    def go(options, tensors, *commands):
        return model_runner({"options": options, "type": "float64", "commands": list(commands)}, tensors)

    return go


def layer_weights(saved):
    prefix = "weights.blocks.0.layer."
    return {name[len(prefix) :]: x.clone() for name, x in saved.items() if name.startswith(prefix)}
