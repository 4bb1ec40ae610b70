"""The half of an actor that needs no Ray: specification, handles, replies, timers, and the copy made at each call.

The same classes run on Ray and in the simulator. Both give a `Port`; the model asks nothing else of its surroundings.
"""
