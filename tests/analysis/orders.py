"""Classes in a module that pickles can name."""

from dataclasses import dataclass


@dataclass
class Order:
    amount: int
    password: str = ""
    values: object = None


class Rows(list):
    pass
