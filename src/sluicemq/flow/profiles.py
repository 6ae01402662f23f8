"""The numbers of flow control: three profiles, and single numbers that the configuration overrides.

profile        credit_flow_         msg_store_           msg_store_
               default_credit       credit_disc_bound    io_batch_size
rabbitmq-3.5   {200,50}             {2000,500}           2048
rabbitmq-3.8   {400,200}            {4000,800}           4096
adaptive       windows of at most   {4000,800}           4096
               {200,50}, from the budget

The numbers of quorum queues changed with 3.8.4; rabbitmq-3.8 and adaptive have those.

profile         segment_      wal_max_     quorum_commands_  segment
                max_entries   batch_size   soft_limit        writer
rabbitmq-3.8.3  32768         32768        256               sequential
rabbitmq-3.8.4  4096          4096         32                parallel
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from sluicemq.flow.budget import Budget
from sluicemq.flow.credit import LinkSpec

if TYPE_CHECKING:
    from sluicemq.config import FlowConfig, RaftConfig

ADAPTIVE: Final = "adaptive"
SEQUENTIAL: Final = "sequential"
PARALLEL: Final = "parallel"


class RaftProfile(NamedTuple):
    """The numbers of quorum queues, by RabbitMQ's names of the settings."""

    segment_max_entries: int
    """Entries of one file of a log."""
    wal_max_batch_size: int
    """Appends to logs that share one sync at most."""
    quorum_commands_soft_limit: int
    """Batches of a channel that a queue has not answered, at which the publisher waits."""
    segment_writer: str
    """PARALLEL: groups write their segments beside one another; SEQUENTIAL: one by one."""


BEFORE_3_8_4: Final = RaftProfile(32768, 32768, 256, SEQUENTIAL)
SINCE_3_8_4: Final = RaftProfile(4096, 4096, 32, PARALLEL)


class FlowProfile:
    """The numbers of one flow control profile, by RabbitMQ's names of the settings."""

    __slots__ = (
        "credit_flow_default_credit",
        "msg_store_credit_disc_bound",
        "msg_store_io_batch_size",
        "name",
        "raft",
    )

    def __init__(
        self,
        name: str,
        credit_flow_default_credit: LinkSpec,
        msg_store_credit_disc_bound: LinkSpec,
        msg_store_io_batch_size: int,
        raft: RaftProfile = SINCE_3_8_4,
    ) -> None:
        self.name = name
        self.credit_flow_default_credit = credit_flow_default_credit
        """reader -> channel, channel -> queue and its mirrors."""
        self.msg_store_credit_disc_bound = msg_store_credit_disc_bound
        """queue -> message store."""
        self.msg_store_io_batch_size = msg_store_io_batch_size
        """Positions are paged out only in batches of at least this many messages."""
        self.raft = raft


PROFILES: Final = {
    profile.name: profile
    for profile in (
        FlowProfile("rabbitmq-3.5", LinkSpec(200, 50), LinkSpec(2000, 500), 2048),
        FlowProfile("rabbitmq-3.8", LinkSpec(400, 200), LinkSpec(4000, 800), 4096),
        FlowProfile("rabbitmq-3.8.3", LinkSpec(400, 200), LinkSpec(4000, 800), 4096, BEFORE_3_8_4),
        FlowProfile("rabbitmq-3.8.4", LinkSpec(400, 200), LinkSpec(4000, 800), 4096, SINCE_3_8_4),
        FlowProfile(ADAPTIVE, LinkSpec(200, 50), LinkSpec(4000, 800), 4096),
    )
}


def flow_profile(config: FlowConfig) -> FlowProfile:
    """Return the profile that `config` names, with the numbers that it overrides."""
    base = PROFILES[config.profile]
    if config.credit_flow_default_credit is not None:
        credit = LinkSpec(*config.credit_flow_default_credit)
    elif base.name == ADAPTIVE:
        credit = LinkSpec(config.window_ceiling, max(1, config.window_ceiling // 4))
    else:
        credit = base.credit_flow_default_credit
    store = base.msg_store_credit_disc_bound
    if config.msg_store_credit_disc_bound is not None:
        store = LinkSpec(*config.msg_store_credit_disc_bound)
    return FlowProfile(base.name, credit, store, base.msg_store_io_batch_size, base.raft)


def raft_profile(flow: FlowConfig, raft: RaftConfig) -> RaftProfile:
    """Return the numbers of quorum queues of the profile that `flow` names, with those that `raft`
    overrides."""
    base = PROFILES[flow.profile].raft
    return RaftProfile(*(getattr(raft, name) or getattr(base, name) for name in base._fields))


def flow_budget(config: FlowConfig) -> Budget | None:
    """Return the node's one budget, for its links of `credit_flow_default_credit`; None with fixed
    credit."""
    if config.profile != ADAPTIVE:
        return None
    return Budget(
        config.chain_budget_messages,
        config.chain_budget_bytes,
        config.window_floor,
        config.window_ceiling,
    )
