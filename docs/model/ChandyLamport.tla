--------------------------- MODULE ChandyLamport ---------------------------
(***************************************************************************)
(* Snapshots with numbered markers, as rayshot/protocol takes them.        *)
(*                                                                         *)
(* A channel is a pair <<sender, receiver>>; its messages are numbered 1,  *)
(* 2, 3 ..., and nothing but their numbers matters here.  On each channel  *)
(*                                                                         *)
(*   received <= arrived <= transported <= sent,  acknowledged <= arrived  *)
(*                                                                         *)
(* so that the mailbox is received+1 .. arrived and the outbox is          *)
(* transported+1 .. sent.  A batch is one message; one of several is the   *)
(* same as several of one, its markers being heeded first.  The message 0  *)
(* is none at all: its packet brings markers only.                         *)
(*                                                                         *)
(* The transport is a set: a packet or an acknowledgement may arrive in    *)
(* any order, any number of times, or never.  Only what could change       *)
(* nothing any more is taken out (News, Answers).  What may be said again  *)
(* at any later moment - a batch with the markers that are then due, an    *)
(* acknowledgement of what has arrived by then - is put in as soon as it   *)
(* differs: that it arrives later, or never, is a behaviour in any case.   *)
(*                                                                         *)
(* An aligned snapshot is recorded later: when all inputs have brought     *)
(* their markers and what was sent before these is processed.              *)
(*                                                                         *)
(* Broken names the one rule that is broken; "none" is the protocol.       *)
(***************************************************************************)
EXTENDS Naturals, TLC

CONSTANTS
    Limit,          \* channel -> how many messages are sent on it at most
    ByCoordinator,  \* snapshots of which the coordinator tells everybody; their markers ride on batches
    ByProcess,      \* snapshots that "p" begins and nothing but markers spreads: these go by themselves too
    Aligned,        \* those of the coordinator's that are aligned; their markers go by themselves as well
    MayTimeOut,     \* whether alignment may end early, at any process and any time
    Broken

VARIABLES
    sent, transported, acknowledged, arrived, received,  \* channel -> number
    net,       \* channel -> packets
    acks,      \* channel -> acknowledgements, from its receiver to its sender
    phase,     \* process -> snapshot -> "unaware", "learned", "recorded" or "over"
    due,       \* channel -> snapshots whose markers ride on its batches
    answered,  \* channel -> whether something came on it: then the receiver may answer
    heard,     \* channel -> snapshots whose markers its receiver has got on it
    ends,      \* channel -> snapshot -> where the marker cut it; known before the receiver recorded, or None
    kept,      \* channel -> snapshot -> what was acknowledged before the receiver told of the snapshot, or None
    record,    \* process -> snapshot -> its record, or NoRecord
    begun, complete  \* snapshots

bookkeeping == <<phase, due, answered, heard, ends, kept>>
snapshots == <<record, begun, complete>>
vars == <<sent, transported, acknowledged, arrived, received, net, acks, bookkeeping, snapshots>>

Channels == DOMAIN Limit
Processes == {c[1] : c \in Channels} \cup {c[2] : c \in Channels}
Snapshots == ByCoordinator \cup ByProcess
Out(p) == {c \in Channels : c[1] = p}
In(p) == {c \in Channels : c[2] = p}
None == 99  \* above every number
NoRecord == [made |-> FALSE]

Min(S) == CHOOSE x \in S : \A y \in S : x <= y
Max(a, b) == IF a > b THEN a ELSE b

(* For the configurations: a triangle, on which news takes two ways, the same with one message more, a cycle, and two
   processes that send to each other. *)
Triangle == (<<"p", "q">> :> 1) @@ (<<"p", "r">> :> 1) @@ (<<"r", "q">> :> 1)
MoreOnTriangle == [Triangle EXCEPT ![<<"p", "q">>] = 2]
Ring == (<<"p", "q">> :> 1) @@ (<<"q", "r">> :> 1) @@ (<<"r", "p">> :> 1)
Pair == (<<"p", "q">> :> 1) @@ (<<"q", "p">> :> 1)

-----------------------------------------------------------------------------
(* What a process reads off its own state. *)

\* The number up to which the sender lets go of messages (Participant.released).
Released(c) == Min({acknowledged[c]} \cup {kept[c][k] : k \in Snapshots})

\* What a packet carries: a message and the markers that are due, with the numbers that the sender recorded.
Packet(message, markers) == [message |-> message, markers |-> markers]

\* Number and snapshots are of one moment.  `now` is the receiver's phases, `number` what has arrived.
Acknowledgement(c, number, markers, now) ==
    [number |-> number, markers |-> markers,
     recorded |-> {k \in Snapshots : now[c[2]][k] = "recorded"}]

\* Of the packets those that may still tell their receiver something: a message or a marker that it has not got.
News(packets, number, known) ==
    {x \in {[y EXCEPT !.markers = @ \ known] : y \in packets} : x.message > number \/ x.markers # {}}

\* Of the acknowledgements those that may still tell their sender something.  `now` and `keeps` are phases and `kept`.
Answers(c, answers, number, markers, now, keeps) ==
    LET open == {k \in Snapshots : now[c[1]][k] \in {"unaware", "learned"} /\ keeps[c][k] = None}
        rest(x) == [number |-> IF x.number > number THEN x.number ELSE 0,
                    markers |-> x.markers \cap markers,
                    recorded |-> x.recorded \cap open]
    IN {rest(x) : x \in answers} \ {[number |-> 0, markers |-> {}, recorded |-> {}]}

\* The batches that may be sent again, with the markers that are due by now.
Again(c, markers, above) == {Packet(i, markers) : i \in (above + 1) .. transported[c]}

Learn(p, news) ==
    [phase EXCEPT ![p] = [k \in Snapshots |-> IF k \in news /\ @[k] = "unaware" THEN "learned" ELSE @[k]]]

-----------------------------------------------------------------------------
(* The application: any message may be sent at any time, also by a handler that runs on while a record waits. *)

Send(c) ==
    /\ sent[c] < Limit[c]
    /\ sent' = [sent EXCEPT ![c] = @ + 1]
    /\ UNCHANGED <<transported, acknowledged, arrived, received, net, acks, bookkeeping, snapshots>>

\* No message is processed between the news of a snapshot and the record; if it is an aligned one, none behind a marker.
Process(c) ==
    /\ received[c] < arrived[c]
    /\ \/ \A k \in Snapshots : phase[c[2]][k] = "learned" => k \in Aligned /\ received[c] < ends[c][k]
       \/ Broken = "process-before-recording"
    /\ received' = [received EXCEPT ![c] = @ + 1]
    /\ UNCHANGED <<sent, transported, acknowledged, arrived, net, acks, bookkeeping, snapshots>>

-----------------------------------------------------------------------------
(* The transport. *)

Transport(c) ==
    /\ transported[c] < sent[c]
    /\ transported' = [transported EXCEPT ![c] = @ + 1]
    /\ net' = [net EXCEPT ![c] = @ \cup {Packet(transported[c] + 1, due[c])}]
    /\ UNCHANGED <<sent, acknowledged, arrived, received, acks, bookkeeping, snapshots>>

\* The news that a packet brings comes first, also if its message is early or was here before.
Arrive(c, packet) ==
    LET q == c[2]
        now == Learn(q, packet.markers)
        number == IF packet.message = arrived[c] + 1 THEN packet.message ELSE arrived[c]
    IN
    /\ phase' = now
    /\ ends' = [ends EXCEPT ![c] = [k \in Snapshots |->
                   IF k \in packet.markers /\ now[q][k] = "learned" /\ @[k] = None
                   THEN record[c[1]][k].sent[c] ELSE @[k]]]
    /\ heard' = [heard EXCEPT ![c] = @ \cup packet.markers]
    /\ arrived' = [arrived EXCEPT ![c] = number]
    /\ net' = [net EXCEPT ![c] = News(@, number, heard'[c])]
    /\ answered' = [answered EXCEPT ![c] = TRUE]
    /\ acks' = [acks EXCEPT ![c] = @ \cup
                   Answers(c, {Acknowledgement(c, number, heard'[c], now)} \cup
                              (IF Broken = "number-newer-than-tags"
                               THEN {[number |-> number, markers |-> heard'[c], recorded |-> {}]} ELSE {}),
                           acknowledged[c], due[c], now, kept)]
    /\ UNCHANGED <<sent, transported, acknowledged, received, due, kept, snapshots>>

\* The sender learns of what the receiver had recorded, and keeps what was not acknowledged before.
TakeAcknowledgement(c, ack) ==
    LET p == c[1]
        now == Learn(p, ack.recorded)
        number == Max(acknowledged[c], ack.number)
        markers == IF Broken = "markers-until-any-acknowledgement" /\ ack.number > 0
                   THEN {} ELSE due[c] \ ack.markers
    IN
    /\ phase' = now
    /\ kept' = [kept EXCEPT ![c] = [k \in Snapshots |->
                   IF k \in ack.recorded /\ now[p][k] = "learned" /\ @[k] = None /\ Broken # "plain-acknowledgement"
                   THEN IF Broken = "kept-too-late" THEN number ELSE acknowledged[c]
                   ELSE @[k]]]
    /\ acknowledged' = [acknowledged EXCEPT ![c] = number]
    /\ due' = [due EXCEPT ![c] = markers]
    /\ net' = IF markers = due[c] THEN net
               ELSE [net EXCEPT ![c] = @ \cup News(Again(c, markers, number), arrived[c], heard[c])]
    /\ acks' = [acks EXCEPT ![c] = Answers(c, @, number, markers, now, kept')]
    /\ UNCHANGED <<sent, transported, arrived, received, answered, heard, ends, snapshots>>

-----------------------------------------------------------------------------
(* Snapshots. *)

Begin(k) ==
    /\ k \notin begun
    /\ begun' = begun \cup {k}
    /\ phase' = IF k \in ByProcess THEN Learn("p", {k}) ELSE phase
    /\ UNCHANGED <<sent, transported, acknowledged, arrived, received, net, acks, due, answered, heard, ends, kept,
                   record, complete>>

\* The coordinator's word arrives; that it is repeated or late changes nothing.
Hear(p, k) ==
    /\ k \in begun \cap ByCoordinator
    /\ phase[p][k] = "unaware"
    /\ phase' = Learn(p, {k})
    /\ UNCHANGED <<sent, transported, acknowledged, arrived, received, net, acks, due, answered, heard, ends, kept,
                   snapshots>>

\* From where on the sender hands in what it has sent.
ReleasedFor(c, k) ==
    IF Broken = "outbox-only" THEN transported[c]
    ELSE IF kept[c][k] # None THEN kept[c][k] ELSE acknowledged[c]

\* Up to where the mailbox belongs to the snapshot.
ArrivedFor(c, k) ==
    Max(received[c], IF Broken = "marker-without-number" THEN arrived[c] ELSE Min({arrived[c], ends[c][k]}))

\* `out` and `in` are the messages that are handed in: those that the process really has.
MakeRecord(p, k) ==
    [made |-> TRUE,
     sent |-> [c \in Out(p) |-> sent[c]],
     released |-> [c \in Out(p) |-> ReleasedFor(c, k)],
     received |-> [c \in In(p) |-> received[c]],
     arrived |-> [c \in In(p) |-> ArrivedFor(c, k)],
     out |-> [c \in Out(p) |-> {i \in 1 .. sent[c] : i > ReleasedFor(c, k) /\ i > Released(c)}],
     in |-> [c \in In(p) |-> {i \in 1 .. arrived[c] : received[c] < i /\ i <= ArrivedFor(c, k)}]]

\* Each input has brought its marker, and all that was sent before it is processed.
IsAligned(p, k) == \A c \in In(p) : ends[c][k] # None /\ received[c] = ends[c][k]

Record(p, k) ==
    LET now == [phase EXCEPT ![p][k] = "recorded"]
        markers(c) == IF Broken = "no-markers" THEN {} ELSE due[c] \cup {k}
    IN
    /\ phase[p][k] = "learned"
    /\ k \in Aligned /\ ~MayTimeOut /\ Broken # "record-before-aligned" => IsAligned(p, k)
    /\ phase' = now
    /\ record' = [record EXCEPT ![p][k] = MakeRecord(p, k)]
    /\ kept' = [c \in Channels |-> IF c \in Out(p) THEN [kept[c] EXCEPT ![k] = None] ELSE kept[c]]
    /\ ends' = [c \in Channels |-> IF c \in In(p) THEN [ends[c] EXCEPT ![k] = None] ELSE ends[c]]
    /\ due' = [c \in Channels |-> IF c \in Out(p) THEN markers(c) ELSE due[c]]
    /\ net' = [c \in Channels |->
                  IF c \notin Out(p) THEN net[c]
                  ELSE net[c] \cup News(Again(c, markers(c), acknowledged[c]) \cup
                                         (IF k \in ByProcess \cup Aligned /\ Broken # "no-markers-by-themselves"
                                          THEN {Packet(0, markers(c))} ELSE {}),
                                         arrived[c], heard[c])]
    /\ acks' = [c \in Channels |->
                  Answers(c, acks[c] \cup IF c \in In(p) /\ answered[c]  \* a packet that comes again is answered again
                                          THEN {Acknowledgement(c, arrived[c], heard[c], now)} ELSE {},
                          acknowledged[c], due'[c], now, kept')]
    /\ UNCHANGED <<sent, transported, acknowledged, arrived, received, answered, heard, begun, complete>>

-----------------------------------------------------------------------------
(* The collector. *)

AllRecorded(k) == \A p \in Processes : record[p][k].made

\* It takes m+1 .. a from the receiver and a+1 .. n from the sender.
Taken(c, k) ==
    LET sender == record[c[1]][k]
        receiver == record[c[2]][k]
    IN receiver.in[c] \cup {i \in sender.out[c] : i > receiver.arrived[c]}

EquationHolds(c, k) ==
    LET n == record[c[1]][k].sent[c]
        r == record[c[1]][k].released[c]
        m == record[c[2]][k].received[c]
        a == record[c[2]][k].arrived[c]
    IN m <= a /\ a <= n /\ r <= a /\ Taken(c, k) = (m + 1) .. n

Complete(k) ==
    /\ k \notin complete
    /\ AllRecorded(k)
    /\ \A c \in Channels : EquationHolds(c, k)
    /\ complete' = complete \cup {k}
    /\ UNCHANGED <<sent, transported, acknowledged, arrived, received, net, acks, bookkeeping, record, begun>>

\* The news of the end arrives: markers and tags stop, and late ones change nothing.
Forget(p, k) ==
    /\ k \in complete
    /\ phase[p][k] = "recorded"
    /\ phase' = [phase EXCEPT ![p][k] = "over"]
    /\ due' = [c \in Channels |-> IF c \in Out(p) THEN due[c] \ {k} ELSE due[c]]
    /\ net' = [c \in Channels |->
                  IF c \in Out(p) /\ k \in due[c]
                  THEN net[c] \cup News(Again(c, due'[c], acknowledged[c]), arrived[c], heard[c]) ELSE net[c]]
    /\ acks' = [c \in Channels |-> Answers(c, acks[c], acknowledged[c], due'[c], phase', kept)]
    /\ UNCHANGED <<sent, transported, acknowledged, arrived, received, answered, heard, ends, kept, snapshots>>

-----------------------------------------------------------------------------
Init ==
    /\ sent = [c \in Channels |-> 0]
    /\ transported = [c \in Channels |-> 0]
    /\ acknowledged = [c \in Channels |-> 0]
    /\ arrived = [c \in Channels |-> 0]
    /\ received = [c \in Channels |-> 0]
    /\ net = [c \in Channels |-> {}]
    /\ acks = [c \in Channels |-> {}]
    /\ phase = [p \in Processes |-> [k \in Snapshots |-> "unaware"]]
    /\ due = [c \in Channels |-> {}]
    /\ answered = [c \in Channels |-> FALSE]
    /\ heard = [c \in Channels |-> {}]
    /\ ends = [c \in Channels |-> [k \in Snapshots |-> None]]
    /\ kept = [c \in Channels |-> [k \in Snapshots |-> None]]
    /\ record = [p \in Processes |-> [k \in Snapshots |-> NoRecord]]
    /\ begun = {}
    /\ complete = {}

\* When the last snapshot is complete there is nothing left to look at.  The collector decides from records alone, which
\* do not change, so no behaviour is lost if it decides at once.
Running == complete # Snapshots /\ \A k \in Snapshots : AllRecorded(k) => k \in complete

\* The steps of a snapshot itself.  Only these must go on: it waits for no message to be processed, transported,
\* delivered or acknowledged.
SnapshotStep ==
    \/ \E k \in Snapshots : Complete(k)
    \/ Running /\ \/ \E p \in Processes, k \in Snapshots : Hear(p, k) \/ Record(p, k)
                  \/ \E c \in Channels : \E packet \in net[c] : packet.message = 0 /\ Arrive(c, packet)

\* The steps that bring what was sent to its receiver and through its handlers: alignment waits for these too.
MessageStep ==
    Running /\ \E c \in Channels :
                  \/ Transport(c) \/ Process(c)
                  \/ \E packet \in net[c] : packet.message > 0 /\ Arrive(c, packet)

OtherStep ==
    Running /\ \/ \E c \in Channels : Send(c) \/ \E ack \in acks[c] : TakeAcknowledgement(c, ack)
               \/ \E k \in Snapshots : Begin(k) \/ \E p \in Processes : Forget(p, k)

Next == SnapshotStep \/ MessageStep \/ OtherStep

Spec == Init /\ [][Next]_vars /\ WF_vars(SnapshotStep)
AlignedSpec == Init /\ [][Next]_vars /\ WF_vars(SnapshotStep \/ MessageStep)

-----------------------------------------------------------------------------
(* What must hold. *)

CountersInOrder ==
    \A c \in Channels :
        /\ received[c] <= arrived[c] /\ arrived[c] <= transported[c] /\ transported[c] <= sent[c]
        /\ Released(c) <= acknowledged[c] /\ acknowledged[c] <= arrived[c]

Both(c, k) == record[c[1]][k].made /\ record[c[2]][k].made

\* Nothing from behind the cut is processed before it: be both recorded, or the sender alone so far.
NoOrphan ==
    \A c \in Channels, k \in Snapshots :
        record[c[1]][k].made =>
            LET m == IF record[c[2]][k].made THEN record[c[2]][k].received[c] ELSE received[c]
            IN m <= record[c[1]][k].sent[c]

\* Each message in flight across the cut lies with one of the two records.
NothingLost ==
    \A c \in Channels, k \in Snapshots :
        Both(c, k) =>
            \A i \in (record[c[2]][k].received[c] + 1) .. record[c[1]][k].sent[c] :
                i \in record[c[1]][k].out[c] \cup record[c[2]][k].in[c]

\* The cut equation, as the collector checks it.
Consistency == \A c \in Channels, k \in Snapshots : Both(c, k) => EquationHolds(c, k)

\* Who was aligned has nothing in flight to it.
NothingInFlight ==
    MayTimeOut \/ \A c \in Channels, k \in Aligned :
        Both(c, k) => record[c[2]][k].received[c] = record[c[1]][k].sent[c]

Termination == \A k \in Snapshots : (k \in begun) ~> (k \in complete)
=============================================================================
