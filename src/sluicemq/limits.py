"""Every bound in one place: a name with its unit, and one line why it is what it is.

These are not settings: what a user may set is in `config.py`. Tests shrink what they need by
passing smaller numbers to the classes, never by changing these.
"""

from __future__ import annotations

from typing import Final

# flow: credit and gates

CREDIT_MAX_MESSAGES: Final = 1_000_000
"""Largest initial credit a link may be given: beyond it credit bounds nothing a node could hold."""

CHANNEL_FLOW_STICKY_NS: Final = 1_000_000_000
"""A channel or queue is shown as `flow` this long after it was last held up (RabbitMQ: 1 s), so
that one which toggles a thousand times a second does not flicker."""

CONNECTION_FLOW_STICKY_NS: Final = 5_000_000_000
"""The same for a connection (RabbitMQ: 5 s, one interval of its management UI)."""

LINK_ACTIVE_NS: Final = 1_000_000_000
"""A link counts as active when it handled a message in this period or the one before: short
enough to give an idle publisher's share to the others soon, long enough to count one a second."""

# amqp

TABLE_DEPTH_MAX: Final = 32
"""Tables and arrays inside one another in a field table: far more than anyone means to send, far
less than Python's stack holds."""

TABLE_VALUES_MAX: Final = 4096
"""Values in one decoded field table with all that is nested in it: a value costs a byte on the
wire and some hundred in RAM."""

UNTUNED_FRAME_MAX_BYTES: Final = 131_072
"""Largest frame before frame_max is negotiated, where nothing smaller is set; a node sets
`initial_frame_max`."""

MESSAGE_SIZE_MAX_BYTES: Final = 134_217_728
"""Largest body (RabbitMQ's max_message_size, 128 MiB); also the largest frame without frame_max."""

RUN_MESSAGES_MAX: Final = 200
"""Contents cut from the buffer at a time: one credit window of RabbitMQ's, so that credit is looked
at between two runs."""

RUN_ACKS_MAX: Final = 4096
"""Acks cut from the buffer at a time."""

RUN_METHODS_MAX: Final = 1024
"""Different basic.publish or basic.deliver frames a connection remembers, to know a run by its
first octets; the table is emptied when full."""

MIXED_KEY_METHODS_MAX: Final = 4096
"""Different basic.publish frames whose method a connection remembers, as many as a channel
remembers routes; the table is emptied when full."""

# documents

JSON_DEPTH_MAX: Final = 64
"""Objects and lists inside one another in a parameter or a document of definitions: twice what a
table of AMQP may have, a tenth of what Python's reader takes, so that what was accepted is read
again inside whatever it is kept in."""

# users and permissions

PATTERN_BYTES_MAX: Final = 1024
"""Of a user's regular expression (newer RabbitMQ's bound): compiling takes time, too."""

PATTERN_TIMEOUT_S: Final = 0.01
"""A try to match takes no longer: a sane one takes microseconds, and all clients wait for it."""

PATTERN_TRIES: Final = 2
"""A match that takes too long so often is none. Once may be the machine's fault: what other threads
compute while this one is off the processor counts as time of the try."""

POLICY_QUEUES: Final = 200
"""Queues that are told of a policy in one go: everybody else waits behind them, some milliseconds.
With many policies it is fewer, for each is tried in turn."""

PATTERN_EXPANDED_MAX: Final = 10_000
"""Characters of one when its repetitions are written out, as its compiler does: `(a{99}){99}` is
nearly that large."""

PATTERN_STRIKES_MAX: Final = 50
"""So often one pattern may take too long: a second of the broker's time in all."""

RIGHTS_MAX: Final = 1024
"""Names a connection remembers what it may do with; then it starts anew."""

# queues and deliveries

DELIVERY_WINDOW: Final = 1024
"""Cost units of deliveries a queue hands to one channel before the writer has sent any of them:
what a consumer that does not read can make the broker hold is this many started
DELIVERY_COST_BYTES. RabbitMQ's UNSENT_MESSAGE_LIMIT is 200 messages of any size."""

DELIVERY_WINDOW_NOTIFY: Final = 256
"""The channel tells the queue each time this much of the window was written (RabbitMQ: 50)."""

CONNECTION_WINDOW: Final = 4096
"""The same for all that queues hand to all channels of one connection: 16 MiB, were all of it units
of 4 KiB. Four queues at full speed do not feel it."""

CONNECTION_WINDOW_TIGHT: Final = 8
"""While memory is short it is an eighth of that."""

DELIVERY_COST_BYTES: Final = 4096
"""A delivery costs one unit of the window for each started 4 KiB: one number bounds both."""

CHUNK_MESSAGES: Final = 1024
"""Batches of one kind are joined up to this many messages, so that single publishes of many
connections are delivered in runs."""

CHUNK_BYTES: Final = 1 << 20
"""Nor are they joined beyond this size: what was delivered of a chunk lingers until it is cut."""

TRIM_MESSAGES: Final = 256
"""So many delivered messages may linger at the front of a chunk before it is cut: the cut is
spread over them, and little memory is kept for nothing."""

# channels and connections

ROUTES_MAX: Final = 4096
"""Raw publish frames a channel remembers the route of; then it starts anew. A producer with more
live routing keys than this pays a parse a run."""

TRAITS_MAX: Final = 1024
"""Raw property sets a channel remembers the traits of, which unique message ids fill fast; also
different property traits that a node makes once and shares."""

SHARED_TRAITS_MAX: Final = 4096
"""Different message traits that a node makes once and shares; each takes about 300 bytes."""

CHOICES_MAX: Final = 4096
"""Raw property sets for which a channel remembers where an exchange sends them that looks at the
content; also sets of queues whose links it keeps together."""

REMEMBERED_BYTES_MAX: Final = 1024
"""Longer property sets are not remembered: they hardly repeat, and a thousand of them are much."""

TRANSACTION_BYTES_MAX: Final = 256 << 20
"""What a transaction may hold of messages, if it is more than one: nothing of it can leave RAM."""

TRANSACTION_BATCH_BYTES: Final = 1 << 20
"""Publishes of a transaction are joined to batches of at most this size, as a busy socket would
have brought them."""

RETURN_BYTES: Final = 100
"""What it takes to remember how often a message has come back, where there is a delivery limit: a
place in a table, and its key."""

DEAD_LETTERS_MAX: Final = 1024
DEAD_LETTER_BYTES_MAX: Final = 4 << 20
"""Messages of a queue, and their bytes, that are being dead-lettered at a time; the others wait in
the queue. Both may be exceeded by the last few that were handed over together."""

EXPIRY_LOOK_MS: Final = 60_000
"""At most so long a queue sleeps until its first message expires: the clock may have been set."""

DUE_MESSAGES_MAX: Final = 256
"""Delayed messages that are taken up at a time when their time has come."""

DELAY_LOOK_MS: Final = 1_000
"""An exchange that delays messages looks at least this often whether one is due: a clock that was
set is noticed."""

RETRY_REFUSED_MS: Final = 1_000
"""A message of the broker's own that a full queue has refused is offered to it again after this
while."""

REPLY_BACKLOG_BYTES: Final = 32 << 20
"""So much unread by a client, replies to it are dropped: they cannot wait for it anywhere else."""

ENVELOPES_MAX: Final = 1024
"""Exchange and key pairs for which a consumer's frame ends are kept ready."""

WRITE_BYTES: Final = 1 << 20
"""Most bytes handed to a socket at once: more saves no calls."""

WRITER_BACKLOG_BYTES: Final = 4 << 20
"""Unwritten bytes (confirms, replies, got messages) at which a connection is no longer read."""

QUEUED_METHODS_MAX: Final = 4096
"""Methods a client may pipeline behind one that waits for its queue; then the connection is not
read until the answer is there."""

QUEUED_BYTES_MAX: Final = 4 << 20
"""Nor is it read when what is held so on one channel takes this much: a method may be as large as a
frame."""

LOAD_BYTES: Final = 2 << 20
"""What is read at a time of a queue that was paged out: large enough for the disk, small enough for
a thousand queues that are drained together. RabbitMQ loads a segment."""

PAGE_OUT_BYTES: Final = 4 << 20
"""What is paged out of a queue at a time: it keeps its RAM until it is written."""

GROUP_HOLD_MS: Final = 1
"""How long a group of the journal that somebody waits for waits for more after a sync, if that took
half as long or longer."""

GROUP_WAIT_MS: Final = 200
"""So long a group of the journal that nobody waits for may gather (RabbitMQ's SYNC_INTERVAL)."""

UNHURRIED_GROUP_BYTES: Final = 1 << 20
"""Above this size it is written anyway: enough for the disk to work in large pieces."""

SEAL_AFTER_MS: Final = 500
"""The journal is idle when no group was written for this while at least, twice it at most: longer
than most pauses of one who publishes, shorter than what comes between a fault and its discovery."""

CRASH_WINDOW_NS: Final = 60_000_000_000
"""A queue that has a second fault within this time is not read back once more."""

SUSPECTS_MAX: Final = 16
"""Of the messages that a queue handled when it had a fault: when more of them than this have that
fault each by itself, it is no message's."""

REFUSED_MESSAGES_MAX: Final = 1000
"""Messages that a queue takes no more because they make it fault as they come."""

QUARANTINE_MESSAGES_MAX: Final = 1000
"""Messages that are set aside because they make their queue fault, of all queues together."""

QUARANTINE_BYTES_MAX: Final = 256 << 20
"""Bytes of these. A queue with one more stays down."""

RETRY_FULL_MS: Final = 500
"""What the disk had no space for is tried again after this while."""

TIGHT_RATIO: Final = 0.75
"""Of the memory limit: above it publishers of a queue that is being paged out wait for the disk, so
that the alarm is not needed. Paging begins well below, at the paging ratio."""

CONTENT_OVERHEAD_BYTES: Final = 30
"""What the frames around properties and body add to a content (header frame 22, one body frame
8)."""

BALLAST_PAUSE_NS: Final = 10_000_000_000
"""So long after an attempt to create the ballast file comes the next one."""

STORE_GROUP_BYTES: Final = 8 << 20
"""Bytes waiting for a sync at which the message store stops granting credit: a disk is at its
best long before, and three times as much is in memory (gathered, being joined, being written)."""

STREAM_CHUNK_BYTES: Final = 128 << 10
"""Messages of a stream are joined to chunks of at most this size, unless one alone is larger: a
chunk is what is checked and read as a whole, so also the least a reader holds in RAM."""

STREAM_GROUP_BYTES: Final = 4 << 20
"""What is written of a stream for one sync at most: more makes confirms wait for no gain."""

STREAM_BACKLOG_BYTES: Final = 8 << 20
"""Bytes of a stream that wait for a sync at which its publishers get no more credit."""

STREAM_SEGMENT_BYTES: Final = 64 << 20
"""Size of a stream's segment files when nothing else is asked for (RabbitMQ: 500 MB). Retention
drops whole files and a start reads the last one: both want them smaller."""

STREAM_SEGMENT_MIN_BYTES: Final = 4 << 10
"""Smaller ones are not made, whatever is asked for: each file costs a kilobyte of RAM."""

STREAM_ALLOCATE_BYTES: Final = 64 << 10
"""Of a stream's segment so much, or as much again as it has, is reserved at a time: syncs are
cheaper in reserved space, and an idle stream takes little."""

STREAM_ALLOCATE_MAX_BYTES: Final = 16 << 20
"""But never more than this at a time."""

STREAM_PLACES_BYTES: Final = 64 << 10
"""One chunk for each so many bytes of a segment is in its index: what a look-up reads too much."""

STREAM_READ_BYTES: Final = 512 << 10
"""What is read of a stream for a consumer at a time."""

STREAM_READS_MAX: Final = 8
"""Reads of one stream under way at a time; consumers behind it wait in line."""

STREAM_CACHE_BYTES: Final = 32 << 20
"""Chunks that were just written or read, over all streams of a node, so that consumers at one place
read the disk once."""

RETENTION_LOOK_MS: Final = 30_000
"""Between two looks whether something of a stream is too old. What is too much goes at once."""

CLOSING_TIMEOUT_MS: Final = 30_000
"""How long a peer may take to answer connection.close (RabbitMQ: 30 s)."""

SILENT_CLOSE_DELAY_MS: Final = 3_000
"""A failed login is closed this late, to slow down guessing (RabbitMQ: 3 s)."""

LINGER_MS: Final = 5_000
"""How long a closing socket may take to write out what is queued."""

ACCOUNT_STEP_BYTES: Final = 1 << 20
"""A change of the accounted bytes by this much makes the memory alarm look at once: a flood must
not run for a whole check interval."""

RETARGET_NS: Final = 50_000_000
"""Least time between two computations of how much queues may keep in RAM, while a flood goes on:
a few mebibytes at full speed."""

RETARGET_QUEUE_NS: Final = 100_000
"""And so much more for each queue: with thousands of them the answer costs more than it is worth
that often."""

DISK_LOOK_MIN_MS: Final = 100
DISK_LOOK_MAX_MS: Final = 10_000
"""Bounds of the time between two looks at what is free on the disk (RabbitMQ's)."""

DISK_WRITE_BYTES: Final = 64 << 20
"""What one job of the disk writes at most, such as a segment that is written anew."""
DISK_WRITES_MAX: Final = 100
"""Jobs of the disk between two looks at what is free there, beside the regular ones."""

DISK_FILL_BYTES_MS: Final = 250_000
"""How fast a disk is taken to fill, in bytes a millisecond (RabbitMQ's figure)."""

DISK_CLEAR_BYTES: Final = 16 << 20
"""Space above its limit that is enough to clear the disk alarm, however high the limit is."""

UNFINISHED_FORGIVEN_BYTES: Final = 16 << 20
"""Parts of messages that connections may hold without keeping the memory alarm up."""

UNFINISHED_RATIO: Final = 0.25
"""Of the memory limit: more than this of such parts is not held for long under the alarm."""

UNFINISHED_PATIENCE_NS: Final = 10_000_000_000
"""So long they may: others may free enough meanwhile."""

OVERRUN_RATIO: Final = 1.1
"""Memory in use beyond this much of its limit is freed at once, where it is such parts."""

TRIM_ABOVE_BYTES: Final = 128 << 20
"""Resident memory that no message accounts for, above which freed memory is given back to the
system: well above what the code, its buffers and the allocator's slack take."""

TRIM_LOOKS: Final = 10
"""Looks of the memory monitor between two such attempts: each walks the heap."""

TRIM_FALL_BYTES: Final = 16 << 20
"""When the accounted bytes have fallen by this, and by an eighth, freed memory is given back: after
a flood the process is soon as small as it could be."""

TRIM_FALL_LOOKS: Final = 3
"""Looks between two such attempts, for traffic that comes and goes."""

CONTROL_REQUEST_BYTES: Final = 64 << 20
"""A line on the control socket, which only the broker's user reaches: definitions come in one."""

CONTROL_PART_BYTES: Final = 32 << 10
"""Of an answer, as much is written as JSON at a time: about half a millisecond's work."""

RECORDS_A_PAGE: Final = 250
"""Records that the broker has ready at a time for who asks for all of a kind: about 400 KiB as
JSON. The next page is made when this one has been taken."""

CONTROL_TASKS_MAX: Final = 64
"""Commands that may wait at a time for what they changed to be durable."""

ACTOR_ADDRESSES_MAX: Final = 1 << 20
"""Actors of a node that other nodes, or logs, know by an address, with those that stand for actors
elsewhere. An entry takes about 300 bytes; there are far fewer channels than this."""

# cluster

LINK_PIECE_BYTES: Final = 256 << 10
"""Of a message between nodes in one frame: what comes behind it waits for no more than this."""

LINK_MESSAGE_MAX_BYTES: Final = 160 << 20
"""Of one message between nodes: the largest body there may be, and a quarter more for what is
around it."""

LINK_MESSAGE_COST_BYTES: Final = 400
"""What a message that waits to be sent takes beside its payload."""

LINK_GATE_SHUT_BYTES: Final = 4 << 20
"""Waiting to be sent to a node, from which on the gates of those who feed it are shut: what a link
of ten gigabits takes in some milliseconds."""

LINK_GATE_OPEN_BYTES: Final = 1 << 20
"""Down to which it has to fall before they open."""

LINK_QUEUE_BYTES: Final = 64 << 20
"""With more than this waiting, behind one message that may be larger, a link ends when something
else is to be sent: whoever has not heeded the gate has to begin anew, and the node's memory is not
his."""

LINK_WRITE_BYTES: Final = 512 << 10
"""Written at a time, and about the work of a turn: two large frames, or thousands of small ones."""

LINK_BEAT_MS: Final = 100
"""Between two heartbeats of a link (RabbitMQ's, of those between nodes with quorum queues)."""

LINK_GAPS: Final = 1000
LINK_SUSPECT_FACTOR: Final = 1.5
LINK_SUSPECT_RATIO: Final = 0.99
"""A node is suspected when it is silent for so many times as long as that part of its last gaps
between heartbeats, of which so many are remembered (RabbitMQ's)."""

LINK_SUSPECT_MIN_NS: Final = 1_000_000_000
"""Nobody is suspected sooner (RabbitMQ looks once in that time)."""

LINK_SILENCE_NS: Final = 10_000_000_000
"""A link over which nothing came for so long ends: what waits for that node waits no longer."""

LINK_STALLED_MS: Final = 10_000
"""A node whose disk has had work for so long and finished none of it is suspected, though it says
something, and leads nothing: what waits for it waits for its disk."""

CLOCK_OFF_MS: Final = 5_000
"""By so much the time of day of more than half of all nodes has to differ from a node's, in one
direction, for it to lead no queue: leaders give queues the time by which messages expire."""

LINK_PAUSE_NS: Final = 300_000_000
"""A heartbeat of this node's own that is due by more than this shows that the node itself did not
move: then silence of the others says nothing."""

LINK_SETUP_NS: Final = 5_000_000_000
"""From the attempt to connect, or from being connected to, until the link has to be up: what has
proven nothing has its place no longer."""

LINK_LINGER_MS: Final = 2_000
"""For a connection that ends, so that the other side can read why."""

LINK_RETRY_MIN_MS: Final = 100
LINK_RETRY_MAX_MS: Final = 2_000
"""Between two attempts to connect, each time twice as long, less up to half of it by chance: a node
that is back is part of the cluster again within seconds."""

LINK_STEADY_NS: Final = 5_000_000_000
"""After a link that was up for so long the next attempt comes soon again."""

LINK_HALF_OPEN_MAX: Final = 64
LINK_HALF_OPEN_ADDRESS_MAX: Final = 16
"""Connections to the port for nodes that have proven nothing, in all and from one address: the
others are turned away at once."""

LINK_STRANGERS_LOGGED: Final = 10
LINK_STRANGERS_NS: Final = 60_000_000_000
"""Of those who have proven nothing the log has so many lines in so long a time."""

INQUIRY_NS: Final = 15_000_000_000
"""A question of a node without a link has its answer by then: three times as long as it takes to
hear that there is no majority."""

INTERVIEWS_MAX: Final = 8
"""Such questions at a time; others hear that they have to come later."""

LONELY_NS: Final = 5_000_000_000
LONELY_AGAIN_NS: Final = 2_000_000_000
"""A member without links to a majority, or that knows nobody who leads, asks after so long whether
it is one, and who else is, and then each time: those who removed it do not connect to it."""

JOIN_AGAIN_MS: Final = 1_000
"""Between two questions of a node that wants to join, of one address after the other."""

LINK_SECRET_BYTES: Final = 16
"""Of the secret that the nodes of a cluster share, at least: who has heard a proof may try guesses
as long as they like, and 128 bits of chance are beyond that."""

LINK_NAME_BYTES: Final = 255
"""Of the name of a node or of a cluster: its length is one byte."""

LINK_HANDSHAKE_BYTES: Final = 1024
"""Of one message before the other side has proven who it is: two names, and some numbers."""

# raft

RAFT_TICK_MS: Final = 100
"""Of a member whose group is not quiet: as long as between two heartbeats of a link, so that both
notice a silence as soon."""

RAFT_EARLY_MAX: Final = 10_000
"""Short messages for groups that a node does not have, which are kept for a second or two: the
declaration of a queue may come later than what other members of its group say."""

RAFT_LOST_MS: Final = 60_000
"""After which the channels of a node that cannot be reached are taken for gone, and what they held
is delivered to others; as in RabbitMQ's consumer_disconnected_timeout."""

DIGEST_ENTRIES: Final = 10_000
"""After so many entries the members of a quorum queue compare their states."""

DIGEST_MESSAGES: Final = 2_000
"""Of a queue with more messages and consumers they compare figures alone: a digest of all of it
would take more than a few milliseconds, at which everything else on the node waits."""

LEASE_MS: Final = 15_000
"""How long a member of a quorum queue delivers after its node has last heard of a majority, or of
who leads: a quarter of the time after which what it has delivered goes to others, for a leader
without a majority notices that after some seconds only, and no two clocks run alike."""

LEASE_LOOK_MS: Final = 200
"""Between two looks whether there is a lease again."""

RAFT_ELECTION_TICKS: Final = 10
"""Without a word from the leader for so long, and up to twice that by chance, a member asks to be
elected; a leader without a majority for so long steps down."""

RAFT_LEARNER_PATIENCE: Final = 10
"""After so many election timeouts without a leader a learner asks to be elected, too: it may be the
only one whose log all others can follow."""

RAFT_HEARTBEAT_TICKS: Final = 3
"""Between two heartbeats of a leader whose group is not quiet. Links lose nothing while they last,
and have heartbeats of their own, so three in an election timeout are enough; with thousands of
groups they are most of what members say."""

RAFT_QUIET_TICKS: Final = 10
"""A group in which all members have had everything for so long may fall quiet: soon, as thousands
tick, but not between two publishes of somebody who takes a breath."""

RAFT_APPEND_ENTRIES: Final = 128
"""Entries in one append: each of them may be a batch of publishes."""

RAFT_APPEND_BYTES: Final = 1 << 20
"""Of entries in one append, unless the first one alone is larger."""

RAFT_IN_FLIGHT_ENTRIES: Final = 1024
"""Sent to a follower and not acknowledged: as many as may be uncommitted."""

RAFT_IN_FLIGHT_BYTES: Final = 4 << 20
"""The same in bytes; a follower is sent no more when it is reached."""

RAFT_UNCOMMITTED_ENTRIES: Final = 1024
"""In a leader's log, beyond which nothing is proposed: without a majority a log must not grow."""

RAFT_UNCOMMITTED_BYTES: Final = 4 << 20
"""The same in bytes."""

RAFT_LATE_ENTRIES: Final = 64
"""What a follower lacks that need not be sent each entry at once: it costs little more than one
entry does, and is little for one turn."""

RAFT_LATE_TICKS: Final = 10
"""So long a follower lacks something for that reason, as long as more comes. What is asked about a
queue on a node that does not use it is so old at most, as with classic queues of other nodes."""

RAFT_LATE_BYTES: Final = RAFT_IN_FLIGHT_BYTES
"""The same in bytes: as much as may be in flight anyway."""

RAFT_PIECE_BYTES: Final = 256 << 10
"""Of a snapshot, sent at a time: no frame between nodes is larger."""

RAFT_FRAME_BYTES: Final = 1 << 20
"""Of a frame with messages between members that have bodies in them, unless one alone is larger."""

RAFT_POST_BYTES: Final = 8 << 20
"""Of such messages that wait to be sent to one node; more of them are dropped."""

QUEUE_FRAME_BYTES: Final = 1 << 20
"""Of messages to and from queues of another node that are gathered for one frame: with so many no
more are added, and what is more waits where it is."""

WIRE_CREDIT: Final = 1024
"""What a channel may have on its way to a queue of another node, that has not been taken there: one
for each message, and one more for each whole DELIVERY_COST_BYTES of a batch."""

WIRE_CREDIT_NOTIFY: Final = 256
"""The unit in which that credit is given back."""

QUEUE_FIGURES_MS: Final = 1000
"""How often a node tells the others how many messages and consumers its queues have, as far as that
has changed."""

WIRE_BATCH_BYTES: Final = LINK_MESSAGE_MAX_BYTES - (1 << 20)
"""Of a batch that is sent to a queue of another node. One that is larger is refused."""

RAFT_PROMOTE_LAG_ENTRIES: Final = 128
"""A learner becomes a voter when it has all of the leader's log but so many entries: a majority
that needs it must not have to wait for it."""

RAFT_GROUP_BYTES: Final = 1 << 20
"""Of a group of the journal with appends of Raft groups so much is of these, and as much of what is
written for classic queues, for which they wait."""

RAFT_SEGMENT_BYTES: Final = 64 << 20
"""Of a segment file, unless one entry alone is larger: a start reads a file at a time."""

# definitions of a cluster

PROPOSALS_MAX: Final = 20_000
"""Changes that clients and operators of a node wait for, beyond which more are refused."""

PROPOSAL_BYTES_MAX: Final = 64 << 20
"""Of one change, as JSON: a frame between nodes and an entry of a log bear it."""

PROPOSALS_BYTES: Final = 1 << 20
"""Of the proposals in one entry, or in one frame to the leader, unless the first alone has more."""

GATHERED_PROPOSALS_BYTES: Final = 128 << 20
"""Of proposals that wait at the leader to be in an entry; beyond it those of other nodes are
dropped, which send them again."""

PROPOSAL_WAIT_MS: Final = 5000
"""A client or operator waits so long until a majority has agreed, before it hears that there is
none."""

PROPOSE_AGAIN_MS: Final = 1000
"""What is not agreed on after so long is proposed again: a leader may have lost it."""

SPREAD_WAIT_MS: Final = 1000
"""An answer waits so long, at most, until all nodes that are up have applied the change."""

NODE_DOWN_MS: Final = 60_000
"""What is exclusive or not durable of a node that is down stays for so long: it may be back."""

DEFINITIONS_SNAPSHOT_ENTRIES: Final = 4096
"""Entries of the definitions' log after which it begins behind a snapshot, if that pays; and"""

DEFINITIONS_SNAPSHOT_BYTES: Final = 1 << 20
"""as many bytes of it, or as the snapshot before had."""

# quorum queues

QUORUM_PREFETCH_MAX: Final = 2000
"""Messages that a consumer of a quorum queue may hold, also one that asks for no limit, as in
RabbitMQ: what a consumer holds each member of the group has in its state."""

QUORUM_BACKLOG_BYTES: Final = 2 << 20
"""What a quorum queue may have been given that is not agreed on; then its publishers get no further
credit. It is what some syncs take, and what publishers without confirms always have under way."""

QUORUM_GATHER_BYTES: Final = 128 << 10
"""Of a quorum queue's own entries that are not agreed on; what comes then gathers and is one entry,
for each entry costs as much whatever is in it."""

QUORUM_HOLD_MAX_MS: Final = 300
"""How long what is to be the next entry of a quorum queue waits, at most, for those who hear of the
one before: on a machine with many queues, whose nodes are never done, they take as long."""

QUORUM_BODIES_BYTES: Final = 32 << 20
"""Bodies of a quorum queue that stay in RAM when they can be read from its log as well, what will
be delivered next; x-max-in-memory-bytes may say more, and that or x-max-in-memory-length less."""

QUORUM_READ_BYTES: Final = 4 << 20
"""Bodies of a quorum queue that are read at once, and kept for deliveries."""

QUORUM_READ_ENTRIES: Final = 1000
"""Entries that are read at once."""

QUORUM_SNAPSHOT_ENTRIES: Final = 4096
"""Entries behind the last snapshot for which a quorum queue takes another one, as in RabbitMQ."""

QUORUM_SNAPSHOT_BYTES: Final = 32 << 20
"""The same in bytes: what of the log stays in RAM at least until the disk has it twice."""

QUORUM_DEAD_LETTERS_MAX: Final = 256
"""Dead letters of a quorum queue that must arrive and are on their way; the others wait."""

QUORUM_EXPIRES_MAX: Final = 1000
"""Batches that expire, or are dropped at the head, in one command: about a millisecond's work."""

QUORUM_LEADERS_MAX: Final = 1_000_000
"""Groups of which a node remembers who leads: more than it can have queues."""

QUORUM_LOW_PERCENT: Final = 80
"""Of its limits, down to which a quorum queue that was full must have been emptied before it takes
messages again, as in RabbitMQ."""

# mirrored queues

MIRROR_GATE_BYTES: Final = 4 << 20
"""How far a mirror of the in-sync set may be behind before publishers wait for it: what may be in
flight to a member of a group, so that a mirror which keeps up is never waited for."""

MIRROR_CLOSE_BYTES: Final = 2 << 20
"""How far behind it may be when they go on, and when it joins the set: half of that, so that a gate
does not flutter."""

MIRROR_BEHIND_BYTES: Final = 16 << 20
"""How far it may be behind before it is dropped from the set: publishers had credit when its gate
was shut."""

MIRROR_STALLED_MS: Final = 10_000
"""How long it may get no further before it is dropped: as long as a disk may stand still before its
node counts as down for replication."""

MIRROR_REJOIN_MS: Final = 1000
"""How long a mirror that was dropped stays out of the set at least, the first time."""

MIRROR_REJOIN_MAX_MS: Final = 60_000
"""How long at most, however often it falls out; who has been in the set for so long begins anew."""

MIRROR_MASTER_WAIT_MS: Final = 5000
"""How long what channels ask waits for a master while none is known: it takes a second or two to
elect one after another has died."""

MIRROR_REPLACE_MS: Final = 60_000
"""How long a node is not reached before another one takes its place under `ha-mode: exactly`."""

MIRROR_PROMOTE_MS: Final = 15_000
"""How long a queue has no master before a mirror that may lack messages is made one."""

MIRROR_MARK_AHEAD: Final = 4096
"""Messages that a master marks as delivered before they are: so many may come flagged after a
change of master that nobody has seen, and so seldom a delivery waits for an entry."""
