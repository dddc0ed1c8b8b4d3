"""The layer's figures as compare_cuda.py keeps them."""


def log2(length):
    return length.bit_length() - 1


class Rows:
    """The layer's figures by what, batch, length and order."""

    def __init__(self, rows):
        self.ms = {(row["what"], row["batch"], row["length"], row["order"]): row["ms"] for row in rows}
        self.errors = {row["length"]: row["error"] for row in rows if "error" in row and row["batch"] > 1}
        self.lengths = sorted({row["length"] for row in rows})

    def get(self, what, batch, length, order=None):
        return self.ms.get((what, batch, length, order))

    def orders(self, what, batch, length):
        return sorted(key[3] for key in self.ms if key[:3] == (what, batch, length))
