"""How Ray actors are found that neither work nor die: a stopped process, or one that is cut off.

A call to such a process never fails, so no watch sees it. One whose handler takes long still answers, because other
threads answer questions.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rayshot.runtime.door import door

log = logging.getLogger("rayshot")
ASK_S = 10.0
"""Each host is asked again so many seconds after its last answer."""
STILL_S = 10.0
"""Who has not looked for so many seconds, which should be one, has stood still itself."""
SILENT_S = 60.0
"""A host that has not answered for so many seconds is killed, which is then seen as its death."""


@dataclass
class _Question:
    host: Any
    asked_at: float
    answer: Any


class FailureDetector:
    """Asks hosts whether they live, and kills those that stay silent for `silent_s` seconds, by default SILENT_S."""

    def __init__(self, silent_s: float | None = None, kill: Callable[[Any], None] = door.kill) -> None:
        self._silent_s, self._kill = silent_s, kill
        self._asked: dict[str, _Question] = {}
        self._looked_at = 0.0

    def look(self, hosts: Mapping[str, Any], now: float) -> None:
        """Ask all hosts that are due at `now`, by time.monotonic. Does not wait for answers."""
        silent_s = SILENT_S if self._silent_s is None else self._silent_s
        if now - self._looked_at > STILL_S:
            self._asked.clear()  # the answers may be here, and not be heard yet
        self._looked_at = now
        for name in self._asked.keys() - hosts.keys():
            del self._asked[name]
        for name, host in tuple(hosts.items()):
            question = self._asked.get(name)
            if question is None or question.host != host or self._has_answered(question, now):
                self._asked[name] = _Question(host, now, host.hello.remote())
            elif now - question.asked_at >= silent_s:
                log.error("%s has not answered for %.0f s: its process is killed", name, now - question.asked_at)
                self._kill(host)
                question.asked_at = now  # Ray may need some seconds to end a process that is stopped

    def _has_answered(self, question: _Question, now: float) -> bool:
        """Whether there is an answer, or an error, and the next question is due."""
        return now - question.asked_at >= ASK_S and bool(door.wait([question.answer], timeout=0)[0])
