"""Programs that measure in a process of their own: jobs in as JSON, one JSON line out for each."""

import json
import os
import subprocess
import sys
from pathlib import Path

import torch

PEERS = Path(__file__).parent / "peers"


def start(command, jobs):
    """A command that has ended. What this process has cached on the GPU is given back first."""
    torch.cuda.empty_cache()
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([str(word) for word in command], input=json.dumps(jobs), stdout=subprocess.PIPE, text=True,
                          env=environment)  # fmt: skip


def run(command):
    """The JSON lines that a program of ours prints."""
    done = start(command, None)
    if done.returncode != 0:
        sys.exit(f"compare_cuda: {' '.join(map(str, command))} failed")
    return [json.loads(line) for line in done.stdout.splitlines()]


def run_peer(script, *arguments, jobs):
    """The JSON lines of a peer up to where it failed, if it did: what is missing counts as missed in the report."""
    done = start([sys.executable, PEERS / script, *arguments], jobs)
    if done.returncode != 0:
        print(f"compare_cuda: {script} failed; its figures are missing", file=sys.stderr)
    return [json.loads(line) for line in done.stdout.splitlines() if line.endswith("}")]
