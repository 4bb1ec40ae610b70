"""Questions to a snapshot: stable properties and conserved sums (Chandy and Lamport 1985, section 5).

    global_state   S*, as predicates see it
    property       predicates, and what is declared about them: `stable`, `invariant`, `possibly`
    verdict        what one snapshot says, and for which other snapshots that is true
    order          the snapshots of a history in the order of their cuts
    detection      one property over a history
    quantity       something that can be counted in states and messages
    counting       ready-made: termination, a counter, tokens, sums
    replies        ready-made: replies that never come
    waiting        ready-made: which actors wait for each other, and deadlock
    references     ready-made: actors that nobody can reach
    conservation   where a sum changed that should never change, with `books` for the actors that handled it

Nothing here needs Ray, and nothing of a snapshot is executed: a predicate is the user's own code.
"""

from rayshot.properties.books import Account
from rayshot.properties.conservation import Conservation, Interval, Total, conservation
from rayshot.properties.counting import conserved_sum, counter_reached, termination, token_census
from rayshot.properties.detection import Detection, detect
from rayshot.properties.global_state import ActorState, GlobalState, Message
from rayshot.properties.property import Answer, Property, invariant, possibly, stable
from rayshot.properties.quantity import Quantity, quantity
from rayshot.properties.references import unreferenced
from rayshot.properties.replies import lost_reply
from rayshot.properties.verdict import Verdict, judge
from rayshot.properties.waiting import WaitGraph, deadlock, wait_graph, waiting_handlers

__all__ = [
    "Account",
    "ActorState",
    "Answer",
    "Conservation",
    "Detection",
    "GlobalState",
    "Interval",
    "Message",
    "Property",
    "Quantity",
    "Total",
    "Verdict",
    "WaitGraph",
    "conservation",
    "conserved_sum",
    "counter_reached",
    "deadlock",
    "detect",
    "invariant",
    "judge",
    "lost_reply",
    "possibly",
    "quantity",
    "stable",
    "termination",
    "token_census",
    "unreferenced",
    "wait_graph",
    "waiting_handlers",
]
