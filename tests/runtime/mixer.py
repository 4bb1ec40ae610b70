"""An actor whose arrays share memory."""

import array

import numpy as np

import rayshot


@rayshot.actor
class Mixer:
    """Writes through one array what it reads through another."""

    def __init__(self):
        self.frame = np.zeros(8)
        self.left, self.right = self.frame[:4], self.frame[4:]
        self.wave = np.zeros(4, complex)
        self.real = self.wave.real
        self.raw = bytearray(8)
        self.words = np.frombuffer(self.raw, "u1")
        self.numbers = array.array("d", [0, 0])
        self.last = np.frombuffer(self.numbers)[1:]

    def play(self):
        self.left += 1
        self.right += 2
        self.real += 1
        self.words[0] += 1
        self.last += 1

    def look(self):
        return self.frame.tolist(), self.wave.tolist(), list(self.raw), self.numbers.tolist()
