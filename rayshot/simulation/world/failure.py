"""The error of an oracle when a run broke a promise."""


class OracleFailure(AssertionError):
    """`oracle` names the promise that was broken; the message says how."""

    def __init__(self, oracle: str, detail: str) -> None:
        super().__init__(f"{oracle}: {detail}")
        self.oracle = oracle
