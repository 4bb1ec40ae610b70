"""What atheris runs: the first byte picks the decoder, the others are what it reads."""

import sys

import atheris

with atheris.instrument_imports(include=["rayshot"]):
    from tests.fuzz.decoders import DECODERS, REFUSALS, seeds

from tests.fuzz.watching import nothing_is_done

NAMES = [*DECODERS]


def read_one(data: bytes) -> None:
    """Read; an error that is not ours ends the run."""
    if not data:
        return
    try:
        with nothing_is_done():
            DECODERS[NAMES[data[0] % len(NAMES)]](data[1:])
    except REFUSALS:
        return


def main() -> None:
    """Fuzz until libFuzzer's options say that it is enough."""
    for name, several in seeds().items():  # readers import what they need at their first use
        for data in several:
            try:
                DECODERS[name](data)
            except REFUSALS:
                continue
    atheris.Setup(sys.argv, read_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
