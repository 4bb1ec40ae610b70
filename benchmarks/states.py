"""Large states of random bits, for benchmarks of bytes: nothing of them compresses, and any part can be changed."""

import os
import pickle
import time
from pathlib import Path

import numpy as np

Bits = np.ndarray[tuple[int], np.dtype[np.uint64]]


def random_bits(size_bytes: int, seed: int) -> Bits:
    """So many random bytes: a compressor finds nothing in them."""
    return np.random.default_rng(seed).integers(0, 2**64, size_bytes // 8, dtype=np.uint64)


class Holder:
    """Holds the state, changes parts of it, and writes it to files as one would without rayshot."""

    def __init__(self, size_bytes: int, seed: int = 1985) -> None:
        self.array = random_bits(size_bytes, seed)
        self.chosen = np.random.default_rng(seed)

    def change(self, share: float, pieces: int = 1) -> int:
        """Change so large a share (0 .. 1) of all bytes, in so many pieces at random places; returns the bytes.

        The places are drawn from equal parts of the state, one of each, so that pieces never overlap.
        """
        count = round(len(self.array) * share / pieces)
        part = len(self.array) // pieces
        for index in range(pieces):
            start = index * part + int(self.chosen.integers(0, part - count + 1))
            self.array[start : start + count] ^= self.chosen.integers(1, 2**64, dtype=np.uint64)
        return 8 * count * pieces

    def size_bytes(self) -> int:
        """The bytes of the state; also what a restored actor is asked first."""
        return self.array.nbytes

    def write(self, path: str, way: str) -> float:
        """Write the state to a new file in one of WAYS, until the disk has it, and remove it; returns the seconds."""
        began_at = time.perf_counter()
        with Path(path).open("xb") as file:
            if way == "write":
                file.write(self.array.data.cast("B"))
            elif way == "pickle":
                pickle.dump(self.array, file, protocol=5)
            else:
                import torch  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415 - few have it

                torch.save(torch.from_numpy(self.array.view(np.int64)), file)
            file.flush()
            os.fsync(file.fileno())
        seconds = time.perf_counter() - began_at
        Path(path).unlink()
        return seconds


WAYS = ("write", "pickle", "torch")
