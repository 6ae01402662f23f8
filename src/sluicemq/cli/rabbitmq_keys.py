"""Keys of a rabbitmq.conf that a user need not remove: SluiceMQ has nothing that they set, and
keeps its promises without them. The log names each of them, with the reason.

A key for permissions, client connections or durability is never passed over: it is an option here,
or it is refused.
"""

from __future__ import annotations

import re
from typing import Final

ERLANG: Final = "it tunes Erlang's runtime"
MIRRORS: Final = "policies say where queues live, and mirrors get what they lack from a log"
NO_STATISTICS: Final = "nothing is collected: who asks reads what there is"
PLUGIN: Final = "it belongs to a plug-in that does not exist here"
ONE_LOG: Final = "there is one log, with one level and one form"
FORMED: Final = "a cluster is founded by cluster.nodes alone"

PASSED_OVER: Final[tuple[tuple[str, str], ...]] = (
    (r"(erlang|sysmon_handler|distribution)\..+|hipe_compile|delegate_count", ERLANG),
    (r"default_worker_pool_size|socket_writer\.gc_threshold|background_gc_.+", ERLANG),
    (r"net_ticktime|num_acceptors\.(tcp|ssl)", ERLANG),
    (
        r"tcp_listen_options\.(buffer|delay_send|dontroute|exit_on_close|priority|tos|send_timeout"
        r"|send_timeout_close|linger\.(on|timeout)|(high|low)_(msgq_)?watermark)",
        ERLANG,
    ),
    (
        r"ssl_options\.(reuse_sessions|secure_renegotiate|log_level|log_alert|honor_ecc_order"
        r"|bypass_pem_cache)",
        "OpenSSL decides that",
    ),
    (r"mirroring_sync_.+|queue_(master|leader)_locator|cluster_keepalive_interval", MIRRORS),
    (
        r"cluster_partition_handling(\..+)?",
        "a part of a cluster without a majority agrees on nothing; see docs/cluster.md",
    ),
    (
        r"cluster_formation\.(node_type|randomized_startup_delay_range\.(min|max)|node_cleanup\..+"
        r"|internal_lock_retries|lock_retry_(limit|timeout)|target_cluster_size_hint"
        r"|discovery_retry_(limit|interval))",
        FORMED,
    ),
    (r"cluster_name", "`sluicemq ctl set_global_parameter cluster_name` sets it"),
    (r"mnesia_table_loading_retry_(timeout|limit)", "there is no Mnesia"),
    (r"message_store_shutdown_timeout|vhost_restart_strategy", "see docs/operation.md"),
    (r"vm_memory_calculation_strategy", "what counts is the memory that is resident"),
    (r"collect_statistics|management\.rates_mode|management_agent\..+", NO_STATISTICS),
    (r"management\.(sample_retention_policies\..+|http_log_dir)", NO_STATISTICS),
    (r"raft\..+|quorum_queue\.compute_checksums", "logs of quorum queues are kept differently"),
    (r"classic_queue\.default_version", "classic queues have one version"),
    (r"motd_file|reverse_dns_lookups", "it changes only what is shown"),
    (r"log\.(console|exchange|journald|syslog)(\..+)?", ONE_LOG),
    (r"log\.(file|default)\.rotation\..+", "who rotates the log file sends SIGHUP"),
    (r"log\.(file|console)\.(formatter\..+|use_colors|color_esc_seqs\..+|stdio)", ONE_LOG),
    (
        r"log\.(connection|channel|mirroring|queue|federation|upgrade|ra)\.(level|file|rotation\..+)",
        ONE_LOG,
    ),
    (r"(mqtt|stomp|web_mqtt|web_stomp|web_dispatch|stream|amqp1_0|shovel|federation)\..+", PLUGIN),
    (r"(auth_ldap|auth_http|auth_oauth2|auth_cache)\..+", PLUGIN),
    (r"deprecated_features\..+", "there are no such features"),
)
"""Patterns of whole keys, and why they set nothing here. An option of the same name comes first."""

WITH_VALUE: Final[tuple[tuple[str, str, str], ...]] = (
    (
        r"auth_backends\.[0-9]+(\.auth[nz])?",
        "internal|rabbit_auth_backend_internal",
        "users are those of this broker",
    ),
    (
        "password_hashing_module",
        "rabbit_password_hashing_sha256",
        "passwords are hashed so by default",
    ),
    ("proxy_protocol", "false", "there is no proxy protocol"),
    ("ssl_options.client_renegotiation", "false", "OpenSSL decides that"),
)
"""The same, for keys that are passed over with one of these values only."""


def why_passed_over(key: str, value: object) -> str | None:
    """Return why SluiceMQ ignores a key of RabbitMQ's, or None when it does not."""
    for pattern, reason in PASSED_OVER:
        if re.fullmatch(pattern, key):
            return reason
    written = str(value).lower()
    for pattern, values, reason in WITH_VALUE:
        if re.fullmatch(pattern, key) and re.fullmatch(values, written):
            return reason
    return None
