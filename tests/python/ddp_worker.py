"""One of the processes of test_two_processes_train_together: trains on its half of the batch, saves its weights."""

import os
import sys

import torch

import rtf


def make_model():
    torch.manual_seed(0)
    # Layer norm: statistics of a batch would differ between halves and the whole.
    return rtf.nn.SequenceModel(channels=6, order=4, length=16, outputs=2, layers=2, init="montel", norm="layer")


def batch():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(8, 16, 1, generator=generator), torch.randn(8, 2, generator=generator)


def train(model, x, target):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), target).backward()
        optimizer.step()
    return model


def main(folder):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    x, target = batch()
    model = torch.nn.parallel.DistributedDataParallel(make_model())
    train(model, x[4 * rank : 4 * rank + 4], target[4 * rank : 4 * rank + 4])
    torch.save(model.state_dict(), os.path.join(folder, f"rank{rank}.pt"))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
