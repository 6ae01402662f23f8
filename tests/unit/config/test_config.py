"""Goal: a Config cannot be made wrong. Method: build sections directly with bad and good values."""

from __future__ import annotations

import dataclasses

import pytest

from sluicemq.config import (
    PROFILES,
    SECTIONS,
    AuthConfig,
    Config,
    FlowConfig,
    MemoryConfig,
    NetConfig,
    StorageConfig,
)
from sluicemq.errors import Refused
from sluicemq.flow import profiles
from sluicemq.model.queue_types import TYPES
from sluicemq.options import options_of
from sluicemq.queue_config import QUEUE_TYPES


def test_defaults_are_accepted_and_frozen() -> None:
    config = Config()
    assert (config.net.port, config.flow.profile) == (5672, "adaptive")
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.net.port = 1  # type: ignore[misc]


def test_tiny_is_smaller_than_the_defaults_where_it_differs() -> None:
    tiny, usual = Config.tiny(), Config()
    assert tiny.flow.credit_flow_default_credit == (4, 2)
    assert tiny.flow.msg_store_credit_disc_bound == (8, 4)
    assert tiny.net.frame_max < usual.net.frame_max
    assert tiny.flow.chain_budget_messages < usual.flow.chain_budget_messages
    assert tiny.storage.queue_index_segment_entry_count == 8
    assert tiny.storage.journal_file_size_limit == 4096
    assert (tiny.storage.msg_store_file_size_limit, tiny.storage.reserve_bytes) == (2048, 0)


def test_every_field_declares_itself() -> None:
    for section in SECTIONS.values():
        for field, option in options_of(section):
            assert option.help.endswith((".", ")")), field.name
            assert option.accepts(field.default), field.name
            assert not option.optional or option.default_words, field.name


def test_out_of_bounds_is_refused_with_option_value_and_what_is_allowed() -> None:
    with pytest.raises(Refused, match=r"port = 70000: must be a whole number from 0 to 65535"):
        NetConfig(port=70000)
    with pytest.raises(Refused, match=r"profile = 'fast': must be one of adaptive, rabbitmq-3\.5"):
        FlowConfig(profile="fast")
    with pytest.raises(Refused, match="window_floor = 300: must be at most window_ceiling"):
        FlowConfig(window_floor=300)


def test_a_grant_larger_than_the_credit_is_refused_since_it_would_stop_the_link() -> None:
    with pytest.raises(Refused, match="credit_flow_default_credit"):
        FlowConfig(credit_flow_default_credit=(50, 200))
    assert FlowConfig(credit_flow_default_credit=(200, 200))


def test_a_truth_value_is_not_a_number() -> None:
    with pytest.raises(Refused):
        NetConfig(heartbeat=True)


def test_the_password_is_never_shown() -> None:
    with pytest.raises(Refused) as refused:
        AuthConfig(default_pass="")
    assert "(hidden)" in str(refused.value)
    assert "s3cret" not in repr(AuthConfig(default_pass="s3cret"))


def test_limit_bytes_takes_the_absolute_over_the_relative_and_never_more_than_there_is() -> None:
    assert MemoryConfig().limit_bytes(1000) == 400
    assert MemoryConfig(vm_memory_high_watermark_relative=0).limit_bytes(1000) == 0
    assert MemoryConfig(vm_memory_high_watermark_absolute=300).limit_bytes(1000) == 300
    assert MemoryConfig(vm_memory_high_watermark_absolute=3000).limit_bytes(1000) == 1000
    assert MemoryConfig(total_memory_available_override_value=500).limit_bytes(1000) == 200


def test_positions_in_a_segment_must_be_a_power_of_two() -> None:
    for count in (8, 16, 16384, 65536):
        assert StorageConfig(queue_index_segment_entry_count=count)
    with pytest.raises(Refused, match=r"queue_index_segment_entry_count = 100: .* power of two"):
        StorageConfig(queue_index_segment_entry_count=100)
    with pytest.raises(Refused, match="from 8 to 65536"):
        StorageConfig(queue_index_segment_entry_count=4)


def test_the_disk_limit_takes_the_absolute_over_the_relative() -> None:
    assert StorageConfig().disk_free_limit_bytes(2**30) == 50_000_000
    both = StorageConfig(disk_free_limit_absolute=7, disk_free_limit_relative=1.5)
    assert both.disk_free_limit_bytes(1000) == 7
    assert StorageConfig(disk_free_limit_absolute=7).disk_free_limit_bytes(2**30) == 7
    assert StorageConfig(disk_free_limit_relative=1.5).disk_free_limit_bytes(1000) == 1500
    assert StorageConfig(disk_free_limit_relative=0).disk_free_limit_bytes(1000) == 0


def test_the_profiles_that_may_be_named_are_those_that_exist() -> None:
    assert set(PROFILES) == set(profiles.PROFILES)


def test_the_queue_types_that_may_be_named_are_those_that_exist() -> None:
    assert set(QUEUE_TYPES) == set(TYPES)
