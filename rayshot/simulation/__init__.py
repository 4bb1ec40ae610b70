"""Seeded worlds that run the protocol's machines, and the oracles that judge them.

A world is one thread, one list of pending events and one source of choices. Everything that could happen next stands
in the list; the source picks what does. So a run is its list of choices: the same list gives the same run to the bit, a
failure reports its seed and its choices, and prints its story, one line per event.

    choices       where decisions come from: a seed, a recorded list, or what a test plugs in
    settings, topologies, networks    which graph, network and faults, and how many; drawn by choices too
    application   the bare application, which knows nothing of snapshots: accounts that transfer, create, end
    process, driver, coordinator    what drives one Participant, Driver, Collector each, and keeps its duties
    events, network, driving, world, recovery    the world, floor upon floor: the list of events; packets; drivers;
                  processes and snapshots; crashes, rollback, take-over
    truth         what really happened, written down beside the world and judged apart from it
    oracles       the judges of cuts and of final states
    schedule, acceptance    run one or many schedules and count; which cases of the acceptance table they saw

Beside the seeded worlds there is a door for outside data, which leaves nothing to a seed:

    exercise      runs the token-passing exercises of courses: Topology, SendTokens, TakeSnapshot, Tick, run_exercise;
                  as texts: parse_topology, parse_events, render_snapshot
    exercise_script, exercise_text    what they are made of, and their text form
"""
