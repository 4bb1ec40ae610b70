"""What SIGTERM does to a process of a system: it dies at once, as after SIGKILL, and so its death is seen at once.

Ray's own handler waits until all calls of the process have returned, and some of ours stay pending as long as it lives:
the process would neither work nor die. The system goes back to its last snapshot, so nothing has to be put in order.
"""

import signal
import threading


def die_at_sigterm() -> None:
    """From now on SIGTERM ends this process at once. Call it where a Ray actor is made, on its main thread.

    A spare process that becomes an actor does that on another thread, and has called this before. No code of Python
    runs at the signal, so neither a long handler nor an import that holds the interpreter delays it.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
