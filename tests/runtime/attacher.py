"""A program that attaches, once for each line of JSON on its input: {"name": ..., "address": ...}.

Prints for each how it went, as a line of JSON: {"kind", "message", "seconds"} of an error, or {"system", "state"}.
"""

import json
import sys
import time

import rayshot
from rayshot.errors import RayshotError


def attempt(asked):
    began = time.monotonic()
    try:
        system = rayshot.attach(**asked)
    except RayshotError as error:
        return {"kind": error.kind, "message": error.message, "seconds": time.monotonic() - began}
    return {"system": system.name, "life": system.incarnation, "state": system.status().state}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(attempt(json.loads(line))), flush=True)
