"""Goal: the profiles have RabbitMQ's numbers, and each number can be set by itself."""

from __future__ import annotations

import pytest

from sluicemq import config
from sluicemq.config import Config, FlowConfig, RaftConfig
from sluicemq.flow.profiles import PROFILES, flow_budget, flow_profile, raft_profile


@pytest.mark.parametrize(
    ("name", "credit", "store", "batch"),
    [
        ("rabbitmq-3.5", "{200,50}", "{2000,500}", 2048),
        ("rabbitmq-3.8", "{400,200}", "{4000,800}", 4096),
        ("rabbitmq-3.8.3", "{400,200}", "{4000,800}", 4096),
        ("rabbitmq-3.8.4", "{400,200}", "{4000,800}", 4096),
        ("adaptive", "{200,50}", "{4000,800}", 4096),
    ],
)
def test_profile_has_its_numbers(name: str, credit: str, store: str, batch: int) -> None:
    profile = flow_profile(FlowConfig(profile=name))
    assert profile.name == name
    assert repr(profile.credit_flow_default_credit) == credit
    assert repr(profile.msg_store_credit_disc_bound) == store
    assert profile.msg_store_io_batch_size == batch


@pytest.mark.parametrize("name", PROFILES)
def test_number_set_by_itself_replaces_the_profiles(name: str) -> None:
    profile = flow_profile(
        FlowConfig(
            profile=name,
            credit_flow_default_credit=(10, 5),
            msg_store_credit_disc_bound=(30, 7),
        )
    )
    assert repr(profile.credit_flow_default_credit) == "{10,5}"
    assert repr(profile.msg_store_credit_disc_bound) == "{30,7}"


def test_adaptive_links_reach_the_ceiling_that_is_set() -> None:
    flow = FlowConfig(window_ceiling=1000, window_floor=2, chain_budget_messages=9000)
    assert repr(flow_profile(flow).credit_flow_default_credit) == "{1000,250}"
    budget = flow_budget(flow)
    assert budget is not None
    assert (budget.messages, budget.floor, budget.ceiling) == (9000, 2, 1000)
    assert budget.bytes == 64 * 2**20


def test_fixed_profiles_have_no_budget() -> None:
    assert flow_budget(FlowConfig(profile="rabbitmq-3.8")) is None


def test_tiny_numbers_are_taken() -> None:
    assert repr(flow_profile(Config.tiny().flow).credit_flow_default_credit) == "{4,2}"


def test_configuration_offers_exactly_these_profiles() -> None:
    assert sorted(config.PROFILES) == sorted(PROFILES)


@pytest.mark.parametrize("name", PROFILES)
def test_quorum_queues_have_their_numbers(name: str) -> None:
    before = name == "rabbitmq-3.8.3"
    wanted = (32768, 32768, 256, "sequential") if before else (4096, 4096, 32, "parallel")
    assert raft_profile(FlowConfig(profile=name), RaftConfig()) == wanted


def test_a_number_of_quorum_queues_set_by_itself_replaces_the_profiles() -> None:
    raft = RaftConfig(segment_max_entries=7, quorum_commands_soft_limit=9)
    found = raft_profile(FlowConfig(profile="rabbitmq-3.8.3"), raft)
    assert found == (7, 32768, 9, "sequential")
