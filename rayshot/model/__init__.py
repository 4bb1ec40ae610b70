"""What a user's class becomes, without Ray: specification, handles, replies, timers, the copy at the call.

The same classes run on Ray and in the simulator: both give a `Port`, the one thing that a model asks of its world.
"""
