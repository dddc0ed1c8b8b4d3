"""Programs that measure in a process of their own: jobs in as JSON, one JSON line out for each."""

import json
import os
import subprocess
import sys
from pathlib import Path

import torch

PEERS = Path(__file__).parent / "peers"


def run(command, jobs=None):
    """The JSON lines that a command prints. What this process has cached on the GPU is given back first."""
    torch.cuda.empty_cache()
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([str(word) for word in command], input=json.dumps(jobs), stdout=subprocess.PIPE, text=True,
                          env=environment)  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"compare_cuda: {' '.join(map(str, command))} failed")
    return [json.loads(line) for line in done.stdout.splitlines()]


def run_peer(script, *arguments, jobs):
    return run([sys.executable, PEERS / script, *arguments], jobs)
