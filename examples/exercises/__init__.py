"""The token-passing exercises of distributed-systems courses, run by the project's machines; see README.md.

running       runs an exercise: run_exercise
script, text  what it is made of, and its text form
"""

from examples.exercises.running import run_exercise
from examples.exercises.script import ExerciseEvent, RecordedSnapshot, SendTokens, TakeSnapshot, Tick, Topology
from examples.exercises.text import parse_events, parse_topology, render_snapshot

__all__ = [
    "ExerciseEvent",
    "RecordedSnapshot",
    "SendTokens",
    "TakeSnapshot",
    "Tick",
    "Topology",
    "parse_events",
    "parse_topology",
    "render_snapshot",
    "run_exercise",
]
